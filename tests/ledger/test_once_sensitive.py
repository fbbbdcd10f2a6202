"""What was once sensitive, or public, is remembered of a dataset: shares, files, rows in memory, for every door."""

import itertools
import json
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from of_features import parts
from test_estimator import PUBLIC, SENSITIVE, X, Y, fit, search, spent

from benchmarks.compare.__main__ import main
from dpbo_core import PrivacyLedger, PrivateSelection, evaluate_study
from dpbo_core.errors import DpboError, PolicyRefused, StudyInvalid
from dpbo_core.ledger.history import Writer
from dpbo_core.ledger.schema import RESERVATIONS
from dpbo_core.ledger.sources import file_source
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.preconditions import approve_study
from dpbo_core.study.tuning import run_study

CANARY = "canary-51c0de"
AS_PUBLIC = "scored on, and would be read as public"
WAS_PUBLIC = "was read as public by a study"


# --- one table, divided by position


def divided(url, edition, share, rows=slice(None), **changes):
    return search(url, edition=edition, budget=(9.0, 1e-5), **changes).fit(
        X.iloc[rows], Y[rows], validation_size=share
    )


@pytest.mark.parametrize("neighbour", [False, True])
def test_a_share_is_a_fact_of_the_dataset(url, neighbour):
    """A row that edition 1 protected was trained on and published by edition 2; of both neighbours the same."""
    table, labels = X.copy(), Y.astype(object)
    if neighbour:  # sequence(2)[1] = .23: protected at .5, public at .1
        table.iloc[1], labels[1] = 1e6, pd.Timestamp(0)  # a class of another type, which no public row may have
    first = search(url).fit(table, labels, validation_size=0.5)
    before = spent(url)
    assert 1 in first.validation_rows_
    for share in (0.1, 0.7):
        with pytest.raises(PolicyRefused, match=f"validation_size = 0.5, and this study says {share:g}") as refused:
            search(url, edition="2").fit(table, labels, validation_size=share)
        assert refused.value.exit_code == 3
        with pytest.raises(PolicyRefused, match=r"validation_size = 0\.5"):
            first.evaluate(table, labels, validation_size=share, epsilon=0.5)
    with pytest.raises(PolicyRefused, match="of 178 rows, and this one has 170"):
        search(url, edition="3").fit(table[8:], labels[8:], validation_size=0.5)
    assert spent(url) == before


def test_a_table_grows_at_its_end_alone(url):
    divided(url, "1", 0.5, slice(150))
    divided(url, "2", 0.5)
    with pytest.raises(PolicyRefused, match="a table of 178 rows, and this one has 150"):
        divided(url, "3", 0.5, slice(150))
    with pytest.raises(StudyInvalid, match="lost rows"):  # another study of the same people, without the first row
        divided(url, "1", 0.5, np.r_[1 : len(X), 0], study="other")


def test_a_persons_rows_never_lie_on_both_sides(url):
    """A position is no property of a person: who has persons divides the table by them."""
    for persons in ({"person": "who"}, {"n_persons": 20}, {"person": "who", "n_persons": 20}):
        with pytest.raises(StudyInvalid, match="person"):
            divided(url, "1", 0.5, **persons)


def test_what_is_remembered_is_charged_in_the_same_transaction(url):
    honest, child = Writer.write, os.fork()
    if child == 0:  # the facts are written before the charge
        Writer.write = lambda *row: os._exit(7) if row[1] is RESERVATIONS else honest(*row)
        divided(url, "1", 0.5)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert PrivacyLedger(url).accounts() == ()
    divided(url, "1", 0.3)


# --- rows in memory


def test_rows_that_were_validated_on_are_not_read_as_public(url):
    """The owner's own mistakes: exchanged tables, another split, a table that was sorted."""
    fit(search(url))
    before, rng = spent(url), np.random.default_rng(1).permutation(len(X))
    for public, sensitive in ((SENSITIVE, PUBLIC), (rng[50:], rng[:50])):
        given = {"X_validation": X.iloc[sensitive], "y_validation": Y.iloc[sensitive]}
        with pytest.raises(StudyInvalid, match="X holds rows that were sensitive in an earlier study"):
            search(url, edition="2").fit(X.iloc[public], Y.iloc[public], **given)
    assert spent(url) == before
    fit(search(url, edition="2"), X.assign(new=1.0))
    (vault,) = Path(url.removeprefix("sqlite:///")).parent.glob("*.rows/sensitive_rows")
    assert [stat.S_IMODE(place.stat().st_mode) for place in (vault, vault.parent)] == [0o600, 0o700]
    assert vault.stat().st_size == 32 + 8 * 2 * len(X[SENSITIVE])
    vault.write_bytes(b"damaged")
    with pytest.raises(DpboError, match="marks of sensitive rows"):
        fit(search(url, edition="3"))


def test_a_sorted_table_is_not_divided_anew(url):
    divided(url, "1", 0.5)
    order = np.argsort(X["alcohol"].to_numpy(), kind="stable")
    with pytest.raises(StudyInvalid, match="one was sorted"):
        search(url, edition="2").fit(X.iloc[order], Y.iloc[order], validation_size=0.5)


def test_rows_that_are_equal_by_chance_are_no_mistake(url):
    """Of a few categories most rows are there many times, in both tables."""
    few = (X[["alcohol", "hue"]] > X[["alcohol", "hue"]].median()).astype(float)
    fit(search(url), few)
    fit(search(url, edition="2"), few)


def test_predictions_that_were_sensitive_are_not_public(url):
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.random((80, 2)), columns=["a", "b"]) for _ in range(2)]
    y, y_public = np.arange(80) % 2, np.arange(80) % 2
    settings = {"epsilon": 0.5, "dataset": "d", "labels": (0, 1), "budget": (3.0, 0.0), "ledger": url}
    settings |= {"accepts": ("rowwise_predictions",), "scoring": "brier", "method": "private_grid"}
    PrivateSelection(["a", "b"], **settings).fit(tables[0], y, X_public=tables[1], y_public=y_public)
    with pytest.raises(StudyInvalid, match="X_public holds rows that were sensitive"):
        PrivateSelection(["a", "b"], edition="2", **settings).fit(
            tables[1], y, X_public=tables[0], y_public=y_public
        )


# --- files


@pytest.fixture
def write(here, tables):
    """Files of 60 records, and `write(dataset, training, validation, edition)`, which gives a study of two."""
    rng = np.random.default_rng(0)
    for name in ("train", "v", "w", "x"):
        rows = [f"{a:.6f},{b:.6f},{int(a + b > 0)}" for a, b in rng.normal(size=(60, 2))]
        (here / f"{name}.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")

    def write(dataset="clinic", training="train.csv", validation="v.csv", edition="1"):
        made = tables | {
            "study": {"name": "trial", "method": "private_grid", "edition": edition},
            "privacy": {"dataset": dataset, "epsilon": 0.5},
            "data": {"training": training, "validation": validation, "n_validation": 60, "target": "y"},
            "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 2}},
            "evaluation": {},
        }
        (here / "study.toml").write_text(tomli_w.dumps(made))
        return StudySpec.from_dict(made)

    return write


@pytest.fixture
def ledger(here):
    (here / "mlruns").mkdir(mode=0o700)
    return PrivacyLedger(f"sqlite:///{here / 'mlruns' / 'ledger.db'}")


def charged(ledger, *datasets):
    return [len(ledger.accounts(name)[0].entries) for name in datasets]


DOORS = [
    ("tune", "study.toml"),
    ("plan", "study.toml"),
    ("evaluate", "study.toml", "--epsilon", "1", "--plan"),
    *itertools.chain(*parts("COMMANDS_ON_A_STUDY")),
    ("init", "v.csv", "w.csv", "--out", "new.toml"),
]


def test_a_datasets_file_is_public_at_no_door(dpbo, write, ledger, here):
    lines = (here / "v.csv").read_text().splitlines()
    (here / "v.csv").write_text("\n".join([*lines[:-1], f"{CANARY},{CANARY},{CANARY}"]) + "\n")
    run_study(write(), ledger=ledger)
    ward = write("ward", "v.csv", "w.csv")
    with pytest.raises(PolicyRefused, match=AS_PUBLIC):  # as dpbo evaluate asks, from its flow
        evaluate_study(ward, ledger=ledger, epsilon=1.0)
    assert main(["--task", "v.csv"]) == 3
    for door in DOORS:
        code, out, err = dpbo(*door)
        assert code == 3, (door, err)
        assert AS_PUBLIC in " ".join(err.split()), door
        assert CANARY not in out + err, door
    assert charged(ledger, "clinic") == [1]
    assert ledger.accounts("ward") == ()
    assert not (here / "new.toml").exists()


def test_predictions_for_sensitive_records_are_not_public(dpbo, write, ledger, here, tables):
    run_study(write(), ledger=ledger)
    made = tables | {
        "study": {"name": "pick", "method": "private_grid", "accepts": ["rowwise_predictions"]},
        "privacy": {"dataset": "ward", "epsilon": 0.5},
        "data": {"predictions": "w.csv", "public": "v.csv", "n_validation": 60, "target": "y", "labels": [0, 1]},
        "model": {"estimator": "predictions", "score": "brier"},
        "space": {"candidate": {"values": ["a", "b"]}},
    }
    (here / "picks.toml").write_text(tomli_w.dumps(made))
    for door in ("tune", "plan"):
        code, _, err = dpbo(door, "picks.toml")
        assert (code, AS_PUBLIC in " ".join(err.split())) == (3, True), err


def test_a_library_call_is_refused_before_a_file_is_opened(write, ledger, here, monkeypatch):
    run_study(write(), ledger=ledger)
    (here / "soft.csv").symlink_to(here / "v.csv")
    os.link(here / "v.csv", here / "hard.csv")
    monkeypatch.setattr("dpbo_core.data.read_table", lambda *_, **__: pytest.fail("it was opened"))
    for name in ("v.csv", "soft.csv", "hard.csv"):
        with pytest.raises(PolicyRefused, match=AS_PUBLIC):
            run_study(write("ward", name, "w.csv"), ledger=ledger)


def test_what_was_read_as_public_is_not_protected_later(write, ledger, here):
    run_study(write(), ledger=ledger)
    os.link(here / "train.csv", here / "hard.csv")
    for dataset, name in (("ward", "train.csv"), ("ward", "hard.csv"), ("clinic", "train.csv")):
        if dataset == "clinic":
            ledger.allow("clinic", file_source(here / name))
        with pytest.raises(PolicyRefused, match=WAS_PUBLIC) as refused:
            run_study(write(dataset, "x.csv", name, edition="2"), ledger=ledger)
        assert f"budget publish {dataset}" in refused.value.remedy
    assert charged(ledger, "clinic") == [1]
    assert ledger.accounts("ward") == ()


def test_what_decides_is_asked_again_where_it_is_charged(write, ledger, monkeypatch):
    """Between the first look and the charge another study is charged for what this one reads as public."""
    check = FileSplit.check

    def meanwhile(split, public):
        if split.spec.privacy.dataset == "ward":
            run_study(write("clinic", "x.csv", "train.csv"), ledger=ledger)
        check(split, public)

    monkeypatch.setattr(FileSplit, "check", meanwhile)
    with pytest.raises(PolicyRefused, match=AS_PUBLIC):
        run_study(write("ward"), ledger=ledger)
    assert charged(ledger, "clinic") == [1]
    assert ledger.accounts("ward") == ()


def test_the_owners_word_stands_in_every_later_release(dpbo, write, ledger, here):
    run_study(write("clinic", validation="w.csv"), ledger=ledger)
    ledger.allow("clinic", file_source(here / "v.csv"))
    ward = write("ward", "v.csv", "x.csv")
    with pytest.raises(PolicyRefused, match=r"dpbo budget publish clinic .*v\.csv"):
        run_study(ward, ledger=ledger)
    code, out, _ = dpbo("budget", "publish", "clinic", "v.csv")
    assert (code, "(published_records)" in " ".join(out.split())) == (0, True)
    assert "as before" in " ".join(dpbo("budget", "publish", "clinic", "v.csv")[1].split())
    assert run_study(ward, ledger=ledger).release.guarantee.assumptions == ()  # the word of another's owner
    assert run_study(write(validation="w.csv"), ledger=ledger).release.guarantee.assumptions == ()  # before it
    later = run_study(write(validation="w.csv", edition="2"), ledger=ledger).release
    assert later.guarantee.assumptions == ("published_records",)
    (shown,) = json.loads(dpbo("budget", "clinic", "--json")[1])["datasets"]
    assert shown["published"] == [str((here / "v.csv").resolve())]
    assert [entry["assumptions"] for entry in shown["entries"]] == [[], ["published_records"]]
    assert "the owner declared" in " ".join(dpbo("budget", "clinic")[1].split())


def test_a_published_file_may_be_charged_and_is_said(dpbo, write, ledger):
    run_study(write(), ledger=ledger)
    dpbo("budget", "set", "ward", "--epsilon", "3", "--delta", "1e-5")
    assert dpbo("budget", "publish", "ward", "train.csv")[0] == 0
    release = run_study(write("ward", "x.csv", "train.csv"), ledger=ledger).release
    assert release.guarantee.assumptions == ("published_records",)
    assert "published_records" in release.guarantee.in_words()


def test_a_word_about_a_part_is_none_about_the_whole(dpbo, here, ledger, write):
    """One file of a folder is published: the folder is not, nor is another file of it."""
    frame = pd.read_csv(here / "v.csv")
    (here / "parts").mkdir()
    for name in ("a", "b"):
        frame.to_parquet(here / "parts" / f"{name}.parquet")
    spec = write(validation="parts").to_dict()
    spec["data"]["n_validation"] = 120
    run_study(StudySpec.from_dict(spec), ledger=ledger)
    assert dpbo("budget", "publish", "clinic", "parts/a.parquet")[0] == 0
    ledger.check_public(file_source(here / "parts" / "a.parquet"))
    for name in ("parts", "parts/b.parquet"):
        with pytest.raises(PolicyRefused, match=AS_PUBLIC):
            ledger.check_public(file_source(here / name))
    assert dpbo("budget", "publish", "clinic", "parts")[0] == 0
    ledger.check_public(file_source(here / "parts" / "b.parquet"))


@pytest.mark.parametrize("linked", [True, False])
def test_a_part_of_a_folder_is_found_again_elsewhere(write, ledger, here, linked):
    """Behind a link in the folder, or moved out of it; read as public, or as another dataset, or the other way."""
    frame = pd.read_csv(here / "v.csv")
    for folder in ("parts", "public"):
        (here / folder).mkdir()
        part = here / folder / "a.parquet"
        place = here / f"{folder}.parquet"
        frame.to_parquet(place if linked else part)
        if linked:
            part.symlink_to(place)
    run_study(write("clinic", "public", "parts"), ledger=ledger)
    if not linked:
        for folder in ("parts", "public"):
            (here / folder / "a.parquet").rename(here / f"{folder}.parquet")
    for training, validation, why in (
        ("parts.parquet", "x.csv", AS_PUBLIC),
        ("train.csv", "parts.parquet", "'clinic'"),
        ("train.csv", "public.parquet", WAS_PUBLIC),
    ):
        with pytest.raises(PolicyRefused, match=why):
            run_study(write("ward", training, validation), ledger=ledger)


def test_what_a_pattern_wrote_is_found_under_another_name(write, ledger, here):
    approve_study(write(validation="v-{date}.csv"), ledger=ledger, folder=here)
    (here / "v.csv").rename(here / "v-2026-11-20.csv")
    run_study(write(validation="v-2026-11-20.csv"), ledger=ledger)
    (here / "v-2026-11-20.csv").rename(here / "v.csv")
    with pytest.raises(PolicyRefused, match=AS_PUBLIC):
        run_study(write("ward", "v.csv", "x.csv"), ledger=ledger)


def test_nobody_publishes_what_is_not_there(dpbo, write):
    write()
    assert dpbo("budget", "publish", "nobody", "v.csv")[0] == 3
    dpbo("budget", "set", "clinic", "--epsilon", "1")
    assert dpbo("budget", "publish", "clinic", "misspelt.csv")[0] == 2
    assert dpbo("budget", "set", "publish", "--epsilon", "1")[0] == 2
