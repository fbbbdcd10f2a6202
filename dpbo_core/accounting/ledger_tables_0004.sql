CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE facts (
	name VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE datasets (
	name VARCHAR(200) NOT NULL, 
	public BOOLEAN NOT NULL, 
	epsilon_units BIGINT NOT NULL, 
	delta_units BIGINT NOT NULL, 
	relation VARCHAR(40) NOT NULL, 
	accepts JSON NOT NULL, 
	opened_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE reservations (
	id INTEGER NOT NULL, 
	dataset VARCHAR(200) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	study VARCHAR(200) NOT NULL, 
	edition VARCHAR(200) NOT NULL, 
	method VARCHAR(64) NOT NULL, 
	unit VARCHAR(40) NOT NULL, 
	guarantee JSON NOT NULL, 
	spends JSON NOT NULL, 
	epsilon_units BIGINT, 
	delta_units BIGINT NOT NULL, 
	rho_units BIGINT NOT NULL, 
	noise VARCHAR(32) NOT NULL, 
	reserved_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(dataset) REFERENCES datasets (name), 
	UNIQUE (fingerprint)
);

CREATE TABLE draws (
	reservation INTEGER NOT NULL, 
	what VARCHAR(200) NOT NULL, 
	spend JSON NOT NULL, 
	outcome JSON NOT NULL, 
	drawn_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (reservation, what), 
	FOREIGN KEY(reservation) REFERENCES reservations (id)
);

CREATE TABLE releases (
	reservation INTEGER NOT NULL, 
	release JSON NOT NULL, 
	released_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (reservation), 
	FOREIGN KEY(reservation) REFERENCES reservations (id)
);

CREATE TABLE history (
	sequence BIGINT NOT NULL, 
	about VARCHAR(64) NOT NULL, 
	content TEXT NOT NULL, 
	hash VARCHAR(64) NOT NULL, mac VARCHAR(96), totals TEXT, 
	PRIMARY KEY (sequence), 
	UNIQUE (hash)
);

CREATE TABLE dataset_facts (
	dataset VARCHAR(200) NOT NULL, 
	about VARCHAR(64) NOT NULL, 
	item VARCHAR(512) NOT NULL, 
	value JSON NOT NULL, 
	written_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (dataset, about, item), 
	FOREIGN KEY(dataset) REFERENCES datasets (name)
);

CREATE INDEX ix_reservations_dataset ON reservations (dataset);

CREATE TRIGGER facts_no_update BEFORE UPDATE ON facts BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER datasets_no_update BEFORE UPDATE ON datasets BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER datasets_no_delete BEFORE DELETE ON datasets BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER reservations_no_update BEFORE UPDATE ON reservations BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER reservations_no_delete BEFORE DELETE ON reservations BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER draws_no_update BEFORE UPDATE ON draws BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER draws_no_delete BEFORE DELETE ON draws BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER releases_no_update BEFORE UPDATE ON releases BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER releases_no_delete BEFORE DELETE ON releases BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER history_no_update BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER history_no_delete BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER facts_no_delete BEFORE DELETE ON facts BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER dataset_facts_no_update BEFORE UPDATE ON dataset_facts BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER dataset_facts_no_delete BEFORE DELETE ON dataset_facts BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER datasets_amounts BEFORE INSERT ON datasets WHEN NEW.epsilon_units < 0 OR typeof(NEW.epsilon_units) NOT IN ('integer', 'null') OR NEW.delta_units < 0 OR typeof(NEW.delta_units) NOT IN ('integer', 'null') BEGIN SELECT RAISE(ABORT, 'an amount of the ledger is a whole number of units, at least 0'); END;

CREATE TRIGGER reservations_amounts BEFORE INSERT ON reservations WHEN NEW.epsilon_units < 0 OR typeof(NEW.epsilon_units) NOT IN ('integer', 'null') OR NEW.delta_units < 0 OR typeof(NEW.delta_units) NOT IN ('integer', 'null') OR NEW.rho_units < 0 OR typeof(NEW.rho_units) NOT IN ('integer', 'null') BEGIN SELECT RAISE(ABORT, 'an amount of the ledger is a whole number of units, at least 0'); END;

CREATE TRIGGER facts_no_replace BEFORE INSERT ON facts WHEN EXISTS (SELECT 1 FROM facts WHERE name = NEW.name) OR EXISTS (SELECT 1 FROM facts WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER datasets_no_replace BEFORE INSERT ON datasets WHEN EXISTS (SELECT 1 FROM datasets WHERE name = NEW.name) OR EXISTS (SELECT 1 FROM datasets WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER reservations_no_replace BEFORE INSERT ON reservations WHEN EXISTS (SELECT 1 FROM reservations WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM reservations WHERE fingerprint = NEW.fingerprint) OR EXISTS (SELECT 1 FROM reservations WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER draws_no_replace BEFORE INSERT ON draws WHEN EXISTS (SELECT 1 FROM draws WHERE reservation = NEW.reservation AND what = NEW.what) OR EXISTS (SELECT 1 FROM draws WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER releases_no_replace BEFORE INSERT ON releases WHEN EXISTS (SELECT 1 FROM releases WHERE reservation = NEW.reservation) OR EXISTS (SELECT 1 FROM releases WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER dataset_facts_no_replace BEFORE INSERT ON dataset_facts WHEN EXISTS (SELECT 1 FROM dataset_facts WHERE dataset = NEW.dataset AND about = NEW.about AND item = NEW.item) OR EXISTS (SELECT 1 FROM dataset_facts WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER history_no_replace BEFORE INSERT ON history WHEN EXISTS (SELECT 1 FROM history WHERE sequence = NEW.sequence) OR EXISTS (SELECT 1 FROM history WHERE hash = NEW.hash) OR EXISTS (SELECT 1 FROM history WHERE rowid = NEW.rowid) BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

