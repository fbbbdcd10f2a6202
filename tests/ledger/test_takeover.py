"""A corrected study takes over, once, what an unfinished one paid for, where no sensitive byte was opened."""

import json
from threading import Barrier, Thread

import pytest
import sqlalchemy as sa

from dpbo_core import PrivacyLedger, StudySpec
from dpbo_core.errors import BudgetExceeded, BudgetRefused, Sealed, StudyInvalid
from dpbo_core.ledger import audit, recovery
from dpbo_core.ledger.reservation import Reservation
from dpbo_core.study import tuning
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import StudyRun, open_study


@pytest.fixture
def spec(tables):
    tables["study"] |= {"name": "late", "edition": "1", "method": "private_grid"}
    tables["study"].pop("accepts", None)
    tables["privacy"]["epsilon"] = 1.0
    tables["budget"] = {"epsilon": 1.5}  # for one study and no second
    tables["search"] = {"steps": 2}
    return StudySpec.from_dict(tables)


def corrected(spec, lowest=2e-4, **privacy):
    axis = spec.space["lambda"].replace(low=lowest)
    return spec.replace(space={"lambda": axis}, privacy=spec.privacy.replace(**privacy))


@pytest.fixture
def charged_only(monkeypatch):
    """A study that is killed after its charge, before it marks that it opens anything."""

    def start(spec, url):
        def kill(*_):
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(Reservation, "open", kill)
            with pytest.raises(Sealed):
                open_study(Run.of(spec, QueryContext(PrivacyLedger(url))))

    return start


def spent(url):
    (account,) = PrivacyLedger(url).accounts("clinic") or PrivacyLedger(url).accounts()
    return account.spent.epsilon_units, account.spent.rho_units, len(account.entries)


def test_a_corrected_study_pays_nothing_more_and_the_first_is_closed(spec, ledger_url, charged_only):
    charged_only(spec, ledger_url)
    before = spent(ledger_url)
    result = open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(ledger_url)))).run()
    assert spent(ledger_url)[:2] == before[:2]
    assert result.release.guarantee.epsilon == 1.0
    with pytest.raises(StudyInvalid, match="taken over by a corrected study"):
        open_study(Run.of(spec, QueryContext(PrivacyLedger(ledger_url))))
    assert open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(ledger_url)))).run().replayed
    account = PrivacyLedger(ledger_url).accounts()[0]
    assert [entry.taken_over for entry in account.entries] == [True, False]
    assert audit.verify(ledger_url, audit.read_export(audit.export(ledger_url)))


def test_a_corrected_study_that_is_killed_goes_on(spec, url, charged_only, monkeypatch):
    charged_only(spec, url)
    charged_only(corrected(spec), url)
    before = spent(url)
    assert open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(url)))).run().release.released_at
    assert spent(url) == before


def test_what_was_opened_is_not_taken_over_though_nothing_was_drawn(spec, url, monkeypatch):
    """A path draws nothing before its end: the mark comes before the first byte, and a kill may come between."""

    def kill(*_):
        raise KeyboardInterrupt

    from dpbo_core.study.data_split import FileSplit

    with monkeypatch.context() as patch:
        patch.setattr(FileSplit, "sensitive", kill)
        with pytest.raises(BaseException):  # noqa: B017, PT011  sealed or not
            open_study(Run.of(spec, QueryContext(PrivacyLedger(url))))
    with pytest.raises(BudgetExceeded):
        open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(url))))
    # its own rerun goes on
    assert open_study(Run.of(spec, QueryContext(PrivacyLedger(url)))).run().release.released_at


def test_the_mark_is_durable_before_anything_is_opened(spec, url, monkeypatch):
    from dpbo_core.study.data_split import FileSplit

    whole, seen = FileSplit.sensitive, []

    def look(self, public):
        with sa.create_engine(url).connect() as connection:  # another one, which sees what was committed
            seen.append(connection.exec_driver_sql("SELECT about FROM dataset_facts").scalars().all())
        return whole(self, public)

    monkeypatch.setattr(FileSplit, "sensitive", look)
    open_study(Run.of(spec, QueryContext(PrivacyLedger(url))))
    assert ["opened" in facts for facts in seen] == [True]


def test_the_first_study_that_still_runs_cannot_open_afterwards(spec, ledger_url, monkeypatch):
    whole = Reservation.open

    def late(self):
        monkeypatch.setattr(Reservation, "open", whole)
        # meanwhile, in another process
        open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(ledger_url))))
        whole(self)

    monkeypatch.setattr(Reservation, "open", late)
    with pytest.raises(StudyInvalid, match="taken over"):
        open_study(Run.of(spec, QueryContext(PrivacyLedger(ledger_url))))


def test_of_two_takers_at_once_one_takes_it(spec, ledger_url, charged_only):
    charged_only(spec, ledger_url)
    before, barrier, outcomes = spent(ledger_url), Barrier(2), []

    def take(lowest):
        ledger = PrivacyLedger(ledger_url)
        barrier.wait()
        try:
            outcomes.append(open_study(Run.of(corrected(spec, lowest), QueryContext(ledger))))
        except BudgetExceeded as error:
            outcomes.append(error)

    takers = [Thread(target=take, args=(lowest,)) for lowest in (2e-4, 3e-4)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert sorted(type(one) is StudyRun for one in outcomes) == [False, True]
    assert spent(ledger_url)[:2] == before[:2]


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1.01},  # more than was reserved
        {"max_records_per_person": 2},
        {"dataset": "another"},
    ],
)
def test_another_kind_or_more_is_not_taken_over(spec, url, charged_only, change):
    charged_only(spec, url)
    if "dataset" in change:
        open_study(Run.of(corrected(spec, **change), QueryContext(PrivacyLedger(url))))
        assert len(PrivacyLedger(url).accounts()) == 2
    else:
        with pytest.raises((BudgetRefused, BudgetExceeded)):
            open_study(Run.of(corrected(spec, **change), QueryContext(PrivacyLedger(url))))
    assert not any(entry.taken_over for account in PrivacyLedger(url).accounts() for entry in account.entries)


def test_another_name_or_edition_is_not_taken_over(spec, url, charged_only):
    charged_only(spec, url)
    for other in (spec.replace(name="other"), spec.replace(edition="2")):
        with pytest.raises(BudgetExceeded):
            open_study(Run.of(other, QueryContext(PrivacyLedger(url))))


def test_less_is_taken_over_and_what_was_taken_over_is_not_again(spec, url, charged_only):
    charged_only(spec, url)
    charged_only(corrected(spec, epsilon=0.75), url)
    before = spent(url)
    with pytest.raises(BudgetExceeded):  # neither the first, which is closed, nor the second, which paid nothing
        open_study(Run.of(corrected(spec, 3e-4, epsilon=0.75), QueryContext(PrivacyLedger(url))))
    assert spent(url) == before


def test_a_charge_of_a_version_that_marks_nothing_is_not_taken_over(spec, url, charged_only, monkeypatch):
    monkeypatch.setattr(tuning, "MARKS_OPENING", "something else")
    charged_only(spec, url)
    monkeypatch.undo()
    with pytest.raises(BudgetExceeded):
        open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(url))))


def test_in_a_ledger_that_was_recovered_nothing_is_taken_over(spec, url, charged_only, tables, tmp_path):
    charged_only(spec, url)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    tables["privacy"]["dataset"] = "elsewhere"
    open_study(Run.of(StudySpec.from_dict(tables), QueryContext(PrivacyLedger(other))))
    recovery.recover(url, audit.read_export(audit.export(other)))
    with pytest.raises(BudgetExceeded):
        open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(url))))


def test_a_taker_that_was_lost_is_recovered_at_its_own_price(spec, url, charged_only, tmp_path):
    """In the copy the first study may have opened meanwhile: both are paid for."""
    charged_only(spec, url)
    (tmp_path / "copy.db").write_bytes((tmp_path / "ledger.db").read_bytes())
    for guard in tmp_path.glob("ledger.db*generation"):
        (tmp_path / guard.name.replace("ledger.db", "copy.db")).write_bytes(guard.read_bytes())
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(url)))).run()
    open_study(Run.of(spec, QueryContext(PrivacyLedger(copy)))).run()
    one = spent(copy)[0]
    recovery.recover(copy, audit.read_export(audit.export(url)))
    assert spent(copy)[0] == 2 * one
    assert audit.verify(copy)


def test_an_export_in_which_a_closed_charge_goes_on_is_found(spec, url, charged_only):
    from dpbo_core.ledger.reservation import unsound_takeovers

    charged_only(spec, url)
    open_study(Run.of(corrected(spec), QueryContext(PrivacyLedger(url)))).run()
    entries = [json.loads(line) for line in audit.export(url)]
    rows = [(one["sequence"], one["about"], one["row"]) for one in entries]
    assert list(unsound_takeovers(rows)) == []
    taken = next(i for i, (_, _, row) in enumerate(rows) if row.get("about") == "taken_over")
    opened = next(row for _, _, row in rows if row.get("about") == "opened")
    first = rows[taken][2]["item"]
    for place in (taken, len(rows)):  # opened before, or after, it was taken over
        changed = [*rows[:place], (0, "dataset_facts", opened | {"item": first}), *rows[place:]]
        assert list(unsound_takeovers(changed))
    assert list(unsound_takeovers([*rows, rows[taken]]))  # twice
    assert list(unsound_takeovers([row for i, row in enumerate(rows) if i != taken]))  # nothing for nothing
