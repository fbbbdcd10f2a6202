"""`tune_privately` inside other people's flows: the example pipeline, the form, prefect.yaml, and the docs' SQL."""

import importlib.util
import json
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from prefect.utilities.callables import parameter_schema

from dpbo.flows.private_flow import owners_terminal, study_of
from dpbo.flows.stores import Stores
from dpbo.flows.tune import tune_privately
from dpbo_core.errors import StudyInvalid
from dpbo_core.study import StudySpec
from dpbo_core.study.spec import DATA_KINDS

ROOT = Path(__file__).parents[2]


def test_the_team_pipeline_runs(here, databases, monkeypatch):
    spec = importlib.util.spec_from_file_location("team_pipeline", ROOT / "examples" / "team_pipeline.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "STUDY", example.STUDY.replace("points = 12", "points = 3"))
    with databases.prefect_server(), owners_terminal():
        release = example.team_pipeline("team")
        assert example.team_pipeline("team") == release  # again: the same release, no second version
    uri = Stores().tracking
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    (version,) = client.search_model_versions("name = 'tumours'")
    assert version.tags["dpbo.release_id"] == release
    lines = (here / "team" / "validation.csv").read_text().splitlines()
    assert len(lines) == 286


def test_prefects_form_has_a_field_for_everything_a_study_says():
    schema = parameter_schema(tune_privately).model_dump()
    assert schema["required"] == ["study"]
    assert set(schema["properties"]) == {"study", "folder", "register"}
    for section in (StudySpec, StudySpec.model_fields["search"].default_factory, *DATA_KINDS):
        assert set(schema["definitions"][section.__name__]["properties"]) == {*section.model_fields}
    assert "PrivacySection" in schema["definitions"]


def test_what_the_form_sends_is_the_study(tables):
    spec = StudySpec.from_dict(tables)
    sent = json.loads(spec.model_dump_json())
    assert sent["model"]["tolerance"] is None
    assert study_of(sent) == spec
    assert study_of(tables) == spec
    assert study_of(spec) is spec
    sent["privacy"]["epsilon"] = -1.0
    with pytest.raises(StudyInvalid, match=r"privacy\.epsilon"):
        study_of(sent)


def test_the_deployments_name_flows_and_studies_that_exist():
    import yaml
    from prefect.flows import load_flow_from_entrypoint

    from dpbo_core.study.resolve import plan_study
    from dpbo_core.study.spec import read_study

    container = ROOT / "examples" / "container" / "prefect.yaml"
    (in_container,) = yaml.safe_load(container.read_text())["deployments"]
    variables = in_container["work_pool"].pop("job_variables")
    assert variables["volumes"] == ["/srv/dpbo:/srv/dpbo"]  # what the image works in
    assert f"--tag {variables['image']} " in (dockerfile := (container.parent / "Dockerfile").read_text())
    assert "WORKDIR /srv/dpbo" in dockerfile
    in_container["parameters"]["study"] = "examples/breast_cancer.toml"
    for deployment in [in_container, *yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]]:
        flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
        assert deployment["concurrency_limit"] == 1
        assert set(deployment.get("parameters", {})) <= set(flow.parameters.properties)
        for path in deployment.get("parameters", {}).values():
            plan_study(read_study(ROOT / path))
