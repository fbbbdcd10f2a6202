"""Which tables a look reads, and from where it measures a fall."""

import pandas as pd
import pytest
from test_addresses import database, in_table, made, study_of  # noqa: F401  a fixture
from test_pair_bounds import REASON, released
from worlds import by_pairs, problem

from dpbo.features.watch.terms import Terms
from dpbo.features.watch.todays_table import todays_table
from dpbo.features.watch.watching import _released_score
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.public import Public
from dpbo_core.report.evaluation import evaluate_study
from dpbo_core.study import WatchSection
from dpbo_core.study.data_split import public_half
from dpbo_core.study.tuning import run_study


def test_a_watch_of_a_release_without_a_score_asks_from_where_a_fall_is_measured():
    release, _ = released(Public(), 0, epsilon=1.0)
    with pytest.raises(StudyInvalid, match="states no score") as message:
        _released_score(release, by_pairs(problem()))
    assert (message.value.cause, "reference = 0.8" in message.value.remedy) == (REASON, True)


def test_a_report_and_a_look_read_the_same_rows(here, tables, database):  # noqa: F811
    engine, address = database
    tables["evaluation"] = {"epsilon": 1.0}
    study = study_of(tables, here, address("select * from visits"))
    in_table(engine, here)
    made(engine, "CREATE VIEW positives AS SELECT * FROM visits WHERE y = 1")
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    run_study(study, ledger=ledger, folder=here)
    report = evaluate_study(study, ledger=ledger, folder=here)
    assert 0.5 < report.release.value["metrics"]["accuracy"]["value"] < 1.5
    public = public_half(study, here)
    section = WatchSection(drop=0.1, epsilon=1.0, table=address("select x, ward, y from positives"))
    table = todays_table(study, here, public, section, Terms(0.1, 1.0, 2, 0.9, 1))
    assert table.n == int(pd.read_csv(here / "v.csv")["y"].sum())
    assert table.sources()[0].name.endswith("#public.positives")
