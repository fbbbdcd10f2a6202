-- Four roles and four databases, each role in its own; an operator reads the ledger. Run once, by postgres.
CREATE ROLE curator LOGIN;
CREATE ROLE operator LOGIN;
CREATE ROLE prefect LOGIN;
CREATE ROLE mlflow LOGIN;
CREATE DATABASE dpbo OWNER curator;
CREATE DATABASE dpbo_prefect OWNER prefect;
CREATE DATABASE dpbo_mlflow OWNER mlflow;
CREATE DATABASE dpbo_mlflow_auth OWNER mlflow;
REVOKE ALL ON DATABASE dpbo, dpbo_prefect, dpbo_mlflow, dpbo_mlflow_auth FROM PUBLIC;
GRANT CONNECT ON DATABASE dpbo TO operator;
\connect dpbo
ALTER DEFAULT PRIVILEGES FOR ROLE curator IN SCHEMA public GRANT SELECT ON TABLES TO operator;
\connect dpbo_prefect
CREATE EXTENSION pg_trgm;
