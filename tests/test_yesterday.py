"""What an earlier version released stays released: its ledger is opened again, every study of it asked again."""

import json
import shutil
from pathlib import Path

import pytest
from yesterday.studies import FILES, UNFINISHED, searches

from dpbo_core.accounting import audit
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.methods.outsourced.answers import Curator
from dpbo_core.methods.outsourced.box import Outsourced, PrivateAnswers
from dpbo_core.methods.outsourced.curator import Publication, publish
from dpbo_core.methods.outsourced.session import suggest
from dpbo_core.spec import StudySpec
from dpbo_core.study.run import open_study, run_study

STORE = Path(__file__).parent / "yesterday" / "store"
KEPT = json.loads((STORE / "kept.json").read_text())
PRIVATE = PrivateAnswers(-10.0, 0.0, 1.0, 1e-6)


@pytest.fixture
def store(tmp_path):
    """A copy of the store as it was left; SQLite's files for their owner alone."""
    shutil.copytree(STORE, tmp_path / "store")
    for name in ("ledger.db", "ledger.db.generation"):
        (tmp_path / "store" / name).chmod(0o600)
    return tmp_path / "store"


def ledger_of(store):
    return PrivacyLedger(f"sqlite:///{store / 'ledger.db'}")


def spent(ledger):
    return {account.budget.dataset: (account.spent, len(account.entries)) for account in ledger.accounts()}


def no_noise(*_):
    raise AssertionError("a finished study drew again")


def test_every_study_is_kept_and_asked_again():
    assert set(KEPT["finished"]) == (set(FILES) - set(UNFINISHED)) | set(searches(None)) | {"outsourced"}
    assert set(KEPT["unfinished"]) == set(UNFINISHED)


def test_finished_studies_are_replayed_for_nothing(store, monkeypatch):
    ledger = ledger_of(store)
    before = spent(ledger)
    for door in ("draw", "draw_many"):
        monkeypatch.setattr(OperatingSystemNoise, door, no_noise)
    for name in set(FILES) - set(UNFINISHED):
        result = run_study(StudySpec.from_dict(FILES[name]), ledger=ledger, folder=store)
        assert result.replayed, name
        assert result.release.to_json() == KEPT["finished"][name], name
    assert spent(ledger) == before


@pytest.mark.filterwarnings("ignore:released on")
@pytest.mark.parametrize("name", sorted(searches(None)))
def test_finished_notebooks_are_replayed_for_nothing(store, name):
    ledger = ledger_of(store)
    before = spent(ledger)
    search, (X, y, V, truth) = searches(f"sqlite:///{store / 'ledger.db'}")[name]
    search.fit(X, y, X_validation=V, y_validation=truth)
    assert search.replayed_
    assert search.release_.to_json() == KEPT["finished"][name]
    assert search.best_params_.keys() == search.search_space.keys()
    assert spent(ledger) == before


def test_unfinished_studies_continue_and_pay_nothing_more(store):
    ledger = ledger_of(store)
    before = spent(ledger)
    for name in UNFINISHED:
        run = open_study(StudySpec.from_dict(FILES[name]), ledger=ledger, folder=store)
        steps = [run.step() for _ in range(run.n_steps)]
        assert steps[: UNFINISHED[name]] == KEPT["unfinished"][name], name
        release = run.finish().release
        again = run_study(StudySpec.from_dict(FILES[name]), ledger=ledger, folder=store)
        assert again.replayed
        assert again.release == release
    assert spent(ledger) == before


def test_a_new_edition_of_an_old_study_is_charged(store):
    """What is replayed above is found by what the study says, not because everything is."""
    ledger = ledger_of(store)
    before = spent(ledger)
    tables = {**FILES["grid"], "study": {**FILES["grid"]["study"], "edition": "2"}}
    result = run_study(StudySpec.from_dict(tables), ledger=ledger, folder=store)
    assert not result.replayed
    assert spent(ledger)["wards"][1] == before["wards"][1] + 1


def test_the_published_table_and_its_answers_stay(store):
    ledger = ledger_of(store)
    before = spent(ledger)
    publication = Publication(Outsourced(epsilon=3.0, delta=1e-6, norm_bound=4.0), "rows")
    table = store / "again.parquet"
    published = publish(publication, store / "X.csv", table, ledger=ledger, vaults=store / "curator")
    assert published.replayed
    assert published.release.to_json() == KEPT["finished"]["outsourced"]
    assert table.read_bytes() == (store / "Z.parquet").read_bytes()
    curator, again = Curator.of(ledger, store / "curator"), store / "A.json"
    curator.answer_file(store / "Q.json", store / "Y.csv", again, private=PRIVATE, accepts=())
    assert json.loads(again.read_text()) == json.loads((store / "A2.json").read_text())
    assert spent(ledger) == before


def test_the_search_goes_on_from_its_old_state(store):
    ledger = ledger_of(store)
    suggest(store / "Z.parquet", store / "search.json", store / "Q4.json")
    assert json.loads((store / "Q4.json").read_text())["step"] == 4
    before = spent(ledger)
    curator = Curator.of(ledger, store / "curator")
    curator.answer_file(store / "Q4.json", store / "Y.csv", store / "A4.json", private=PRIVATE, accepts=())
    assert spent(ledger) == before


def test_the_history_is_whole_before_and_after(store):
    url = f"sqlite:///{store / 'ledger.db'}"
    audit.verify(url)
    run_study(StudySpec.from_dict(FILES["left-grid"]), ledger=ledger_of(store), folder=store)
    audit.verify(url)
