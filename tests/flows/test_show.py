"""`dpbo show`: any recorded release, from the ledger alone, whatever else is broken."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import tomli_w
from test_contract import VARIANTS, real
from worlds import problem, run, smooth_table

from dpbo.flows.cli import app as cli
from dpbo.tasks.reporting.release_files import registry_entry
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study


@pytest.fixture
def released(here, tables):
    """Run studies without Prefect into this folder's ledger; the release."""

    def run(edition="1", name="trial", dataset="people", method="private_grid"):
        tables["study"] |= {"edition": edition, "name": name, "method": method}
        tables["privacy"] |= {"dataset": dataset, "epsilon": 0.5}
        (here / "study.toml").write_text(tomli_w.dumps(tables))
        ledger = PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")
        return run_study(StudySpec.from_dict(tables), ledger=ledger).release

    return run


def as_tune(release):
    return json.loads(json.dumps(release.to_json() | {"replayed": True, "tracking": None}))


def identified(dpbo, word):
    return json.loads(dpbo("show", word, "--json")[1])["release_id"]


def test_a_release_is_found_by_file_name_edition_and_id(dpbo, released, here, tables):
    """Near names and other editions are told, a file of a schedule means any firing, and nothing is changed."""
    release = released("2026-11-21")
    kept = [(here / "mlruns" / name).read_bytes() for name in ("ledger.db", "ledger.db.generation")]
    for word in ("study.toml", "trial", "trial:2026-11-21", release.release_id):
        code, out, err = dpbo("show", word, "--json")
        assert (code, err, json.loads(out)) == (0, "", as_tune(release))
    code, out, _ = dpbo("show", "trial")
    words = " ".join(out.split())
    for said in (f"{min(max(release.value['score'], 0.0), 1.0):.4f}", release.guarantee.in_words(), "spent"):
        assert said in words
    assert "did you mean 'trial'" in dpbo("show", "trail")[2]
    for edition in ("8", "{date}"):
        tables["study"]["edition"] = edition
        (here / "study.toml").write_text(tomli_w.dumps(tables))
        code, out, err = dpbo("show", "study.toml", "--json")
        if edition == "8":
            assert (code, out, "trial:2026-11-21" in err) == (2, "", True)
        else:
            assert json.loads(out)["release_id"] == release.release_id
    assert kept == [(here / "mlruns" / name).read_bytes() for name in ("ledger.db", "ledger.db.generation")]


def test_a_name_shows_its_newest_release(dpbo, released, tables):
    """Of two releases of one name and edition too; a name with colons is a name; two datasets are listed."""
    releases = [released(edition=str(n)) for n in range(1, 4)]
    assert identified(dpbo, "trial") == releases[2].release_id
    assert identified(dpbo, "trial:2") == releases[1].release_id
    tables["space"]["lambda"]["points"] = 8
    newest = released(edition="3")
    for word in ("trial:3", "study.toml", "trial"):
        assert identified(dpbo, word) == newest.release_id
    for release in (releases[2], newest):
        assert json.loads(dpbo("show", release.release_id, "--json")[1])["value"] == as_tune(release)["value"]
    colons = released(name="a:b", edition="2026-11-21T02:00:00Z")
    for word in ("a:b", "a:b:2026-11-21T02:00:00Z"):
        assert identified(dpbo, word) == colons.release_id
    assert dpbo("show", "a")[0] == 2
    others = released(edition="3", dataset="others")
    code, out, err = dpbo("show", "trial:3", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(release.release_id in err for release in (newest, others))


def test_what_is_not_tuned_yet_is_exit_2_and_makes_nothing(dpbo, here, tables):
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    for word in ("study.toml", "trial"):
        code, out, err = dpbo("show", word)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "not tuned yet" in err
    assert sorted(path.name for path in here.iterdir()) == ["study.toml"]
    PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")
    for word in ("study.toml", "trial", "nothing.toml"):
        code, out, err = dpbo("show", word)
        assert (code, out) == (2, "")


def test_an_unfinished_study_says_that_it_continues(dpbo, here, tables):
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    ledger = PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")
    open_study(Run.of(StudySpec.from_dict(tables), QueryContext(ledger))).step()
    for word in ("study.toml", "trial", "trial:1"):
        code, _, err = dpbo("show", word)
        assert code == 2
        assert "not finished" in err
        assert "it continues" in err


@pytest.fixture
def every_kind(here, monkeypatch):
    """A ledger with a release of every form of every method; method → its ids."""
    url = f"sqlite:///{here / 'ledger.db'}"
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    ledger, ids = PrivacyLedger(url), {}
    ledger.set_budget(PrivacyBudget.without_limit("d"))
    for number, (name, method) in enumerate(VARIANTS.items()):
        world = problem(steps=3)
        plan, released = method.plan(world), run(method, world, smooth_table(world, best=4), real())
        key = QueryKey(f"{number:016x}{0:048x}", "d", name, "1", method.kind)
        claim = ledger.reserve(Charge(key, plan), noise=released.noise)
        kept = claim.conclude(replace(released, study=name, edition="1", dataset="d"))
        ids.setdefault(method.kind, []).append(kept.release_id)
    return ledger, ids


def test_everything_that_was_released_is_shown(dpbo, every_kind):
    ledger, ids = every_kind
    assert len(ids) >= 6
    for names in ids.values():
        for name in names:
            code, out, err = dpbo("show", name, "--json")
            assert (code, err) == (0, "")
            assert json.loads(out) == as_tune(ledger.release_named(name))
        code, out, err = dpbo("show", names[0])  # a screen is its kind's
        assert (code, err) == (0, ""), names[0]


@pytest.mark.slow
def test_every_kind_of_release_has_a_page(dpbo, here, every_kind):
    for name, *_ in every_kind[1].values():
        code, _, err = dpbo("--plain", "show", name, "--html", f"{name}.html")
        assert (code, err) == (0, ""), name
        assert name in (here / f"{name}.html").read_text()


class Page(HTMLParser):
    """What a certificate says, the release inside it, how many pictures it has, and all that it would fetch."""

    def __init__(self):
        super().__init__()
        self.text, self.inside, self.pictures, self.fetched = "", "", 0, []
        self._at = None

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "object")
        self.fetched += [v for name, v in attrs if name in ("src", "href") and not v.startswith("data:")]
        self.pictures += tag == "img"
        self._at = dict(attrs).get("id") if tag == "pre" else self._at

    def handle_endtag(self, tag):
        self._at = None if tag == "pre" else self._at

    def handle_data(self, data):
        self.text += data
        self.inside += data if self._at == "release" else ""


def test_the_page_is_the_certificate(dpbo, released, here):
    """Whatever its study and its dataset are called."""
    tricky = "claims_$10k_$50k"
    PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}").set_budget(
        PrivacyBudget.of(tricky, epsilon=3.0, delta=1e-5)
    )
    release = released(name="q4 $a^2$ \\frac{x}", dataset=tricky)
    code, out, err = dpbo("show", release.release_id, "--html", "page.html")
    assert (code, err, tricky in out) == (0, "", True)
    page = Page()
    page.feed((here / "page.html").read_text())
    assert json.loads(page.inside) == release.to_json()
    assert (page.fetched, page.pictures) == ([], 3)  # it needs nothing else, and says everything
    for said in (tricky, release.guarantee.in_words(), release.release_id, "discrete Laplace",
                 "What it does not guarantee"):  # fmt: skip
        assert said in page.text
    (here / "release.json").write_text(page.inside)
    assert dpbo("verify", "release.json")[0] == 0
    assert (here / "page.html").stat().st_mode & 0o777 == 0o600
    for place in ("nowhere/page.html", "mlruns"):
        code, out, err = dpbo("show", release.release_id, "--html", place)
        assert (code, out, "cannot be written" in err) == (2, "", True)


def test_nothing_else_has_to_work(released, here, tmp_path_factory):
    """Neither Prefect, MLflow nor matplotlib can be imported, and every file but the ledger is gone."""
    release = released()
    (here / "study.toml").unlink()
    broken = tmp_path_factory.mktemp("broken")
    for name in ("prefect", "mlflow", "matplotlib"):
        (broken / f"{name}.py").write_text("raise ImportError('broken')\n")
    path = os.pathsep.join([str(broken), str(Path(cli.__file__).parents[3])])
    words = [sys.executable, "-c", "from dpbo.flows.cli import main; main()", "show", "trial:1", "--json"]
    run = subprocess.run(
        [*words, "--html", "page.html"], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == as_tune(release)
    page = Page()
    page.feed((here / "page.html").read_text())
    assert page.pictures == 0
    assert json.loads(page.inside) == release.to_json()


REGISTRY = {  # the sections and fields of opendp/deployments-registry-data, read in November 2026; * where required
    "basic": "name* data_curators* intended_use* data_product_type* data_product_region* description* "
    "publication_date* data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details data_source_type "
    "data_source_type_details access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors*",
}
VALUES = {
    "data_product_type": {"Summary statistics", "Machine learning model", "Dataset", "Synthetic data",
                          "Interactive API", "SQL queries"},
    "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
    "release_type": {"One release", "Many releases"},
    "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive", "Non-interactive"},
}  # fmt: skip


@pytest.mark.parametrize("method", ["private_grid", "private_trajectory"])
def test_a_registry_entry_has_the_fields_of_the_registry_and_says_what_the_release_says(dpbo, released, method):
    release = released(method=method)
    code, out, err = dpbo("show", "trial", "--format", "registry")
    assert (code, err) == (0, "")
    entry = json.loads(out)
    assert (set(entry), entry["status"]) == ({"url_slug", "status", "tier", "deployment"}, "Draft")
    assert set(entry["deployment"]) == set(REGISTRY)
    for section, fields in entry["deployment"].items():
        names = REGISTRY[section].split()
        assert set(fields) <= {name.rstrip("*") for name in names}, section
        assert {name[:-1] for name in names if name.endswith("*")} <= set(fields), section
        assert all(fields[name] in values for name, values in VALUES.items() if name in fields)
        assert all(isinstance(fields[name], list) and fields[name] for name in fields if name in
                   ("data_curators", "registry_authors"))  # fmt: skip
    guarantee = release.guarantee
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    assert entry["deployment"]["basic"]["publication_date"] == release.released_at[:10]
    with pytest.raises(StudyInvalid, match="guarantees nothing"):
        registry_entry(replace(release, guarantee=guarantee.as_drawn("injected")))
