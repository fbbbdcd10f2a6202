"""What no installed feature declares is refused, and nothing but our own features' parts is loaded."""

import copy
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from conftest import STUDY
from of_features import FEATURES

from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import METHODS, method_named
from dpbo_core.models import record_isolation
from dpbo_core.privacy import named_parts
from dpbo_core.privacy.certified import QUERIES
from dpbo_core.study import StudySpec


@pytest.fixture
def declaring(monkeypatch):
    """Let the distribution declare these entry points alone, (group, name, value) each."""

    def declare(*points):
        made = [EntryPoint(name, value, group) for group, name, value in points]
        installed = {"dpbo": SimpleNamespace(entry_points=made)}
        monkeypatch.setattr("importlib.metadata.distribution", installed.__getitem__)
        named_parts.declared.cache_clear()

    yield declare
    monkeypatch.undo()
    named_parts.declared.cache_clear()


def study(section=None, **model):
    tables = copy.deepcopy(STUDY)
    tables["model"] |= model
    return tables | ({section[0]: section[1]} if section else {})


@pytest.mark.parametrize("section", [("watch", {"drop": 0.1, "epsilon": 1.0}), ("objective", {"scores": 2})])
def test_a_section_of_no_installed_feature_is_refused(declaring, section):
    declaring()
    with pytest.raises(StudyInvalid, match=rf"the study has \[{section[0]}\], and this installation has no such"):
        StudySpec.from_dict(study(section))


def test_a_method_of_no_installed_feature_is_refused(declaring):
    declaring()
    kind = "dp_hypo"
    with pytest.raises(StudyInvalid, match=f"study.method = '{kind}' is not known") as refused:
        method_named(kind, {})
    assert "a feature that this installation does not have" in refused.value.cause
    assert kind not in refused.value.remedy


def test_a_prediction_alone_is_refused_without_its_feature_and_never_weakened(declaring):
    declaring()
    with pytest.raises(StudyInvalid, match=r'rowwise = "enforced" needs .* and this installation has none'):
        record_isolation.enforced_prediction()


def test_without_features_a_study_reads_as_before(declaring):
    before = StudySpec.from_dict(study())
    declaring()
    assert StudySpec.from_dict(study()) == before
    assert method_named("private_grid", {}).kind == "private_grid"


WITHOUT = """
import sys
from dpbo_core.privacy import named_parts
named_parts.declared = lambda group: {}
import dpbo
try:
    dpbo.PrivateObjective
except AttributeError as error:
    print(error)
assert "PrivateObjective" not in dir(dpbo)
from dpbo.flows.cli import main
for verb in ("watch", "curate"):
    sys.argv = ["dpbo", verb]
    try:
        main()
    except SystemExit as stop:
        print(stop.code)
"""


def test_a_command_and_a_name_of_no_installed_feature_are_refused():
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    name, *codes = ran.stdout.splitlines()
    assert name.endswith("'PrivateObjective', and no installed feature declares it")
    assert codes == ["2", "2"]
    for verb in ("watch", "curate"):
        assert f"this installation has no command or feature '{verb}'" in ran.stderr


def test_an_entry_point_of_another_distribution_is_not_loaded(tmp_path, monkeypatch):
    """A package beside ours, found first, which says that it declares a method of ours."""
    info = tmp_path / "beside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dpbo.methods]\nplanted = dpbo.features.watch.terms:QUERY\n")
    monkeypatch.syspath_prepend(tmp_path)
    named_parts.declared.cache_clear()
    assert "planted" not in named_parts.declared("dpbo.methods")
    assert "planted" not in METHODS


@pytest.mark.parametrize(
    "value",
    ["beside:Method", "dpbo_core.methods.public:Public", "dpbo.features:METHOD", "dpbo.featuresque.part:Method"],
)
def test_an_entry_point_outside_the_features_is_not_loaded(declaring, value):
    declaring(("dpbo.methods", "planted", value))
    assert "planted" not in METHODS
    with pytest.raises(StudyInvalid, match="is not known"):
        method_named("planted", {})


def test_an_entry_point_does_not_replace_a_part_of_the_core(declaring):
    planted = f"dpbo.features.{FEATURES[0]}:__name__"
    groups = "dpbo.methods", "dpbo.exchanges", "dpbo.queries", "dpbo.commands", "dpbo.names"
    honest = METHODS["private_grid"]
    declaring(*((group, name, planted) for group in groups for name in ("private_grid", "tune", "Real")))
    assert METHODS["private_grid"] is honest
    assert [*METHODS].count("private_grid") == 1
    assert method_named("private_grid", {}).kind == "private_grid"  # an exchange of its name does not hide it
    assert [*QUERIES] == ["Real", "private_grid", "tune"]  # the core declares none


SHADOWED = """
from dpbo_core.privacy import named_parts
honest = named_parts.declared
planted = {"tune": "dpbo.features.planted:TUNE", "Real": "dpbo.features.planted:Real"}
named_parts.declared = lambda group: planted
import dpbo, dpbo_core
assert dpbo.Real is dpbo_core.Real
assert len(dpbo.__all__) == len(set(dpbo.__all__))
planted.pop("Real")
from dpbo.flows.cli.app import ALL_COMMANDS
assert ALL_COMMANDS["tune"][0] == "dpbo.flows.cli.words:tune"
"""


def test_an_entry_point_replaces_no_command_and_no_public_name():
    subprocess.run([sys.executable, "-c", SHADOWED], check=True)
