"""The curator: how far a row moves, what a table costs, and that it is drawn once however the curator dies."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from exchanges import PRIVATE, World, world, write_csv
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpbo.features.outsourced import curator
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import Outsourced, PrivateAnswers
from dpbo.features.outsourced.curator import Vault
from dpbo.features.outsourced.geometry import (
    AnyRow,
    Geometry,
    NearRow,
    image,
    public_projection,
    spectral_norm_bound,
)
from dpbo.features.outsourced.messages import read_published
from dpbo_core.data.table import table_of
from dpbo_core.errors import (
    AssumptionNotAccepted,
    BudgetExceeded,
    BudgetRefused,
    DpboError,
    EvidenceRefuted,
    NoBudget,
    NoiseNotPrivate,
    Sealed,
    StudyInvalid,
)
from dpbo_core.ledger.accounting.composition import largest_rho
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods import EXCHANGES, METHODS, method_named
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit
from dpbo_core.study.query import QueryContext

BY_ONE, REPLACE = NeighboringRelation.ROW_MOVES_BY_ONE, NeighboringRelation.REPLACE_ONE
NO_NOISE = InjectedNoise(np.random.default_rng(0), 0.0)
anything = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "x", "1e400", None, 1.7e308, -5e-324, True]),
)


def quantised(rows, geometry):
    table = table_of({f"x{j}": list(column) for j, column in enumerate(zip(*rows, strict=True))})
    return image(table, geometry).expose()


@pytest.mark.parametrize(("d", "r"), [(1, 1), (3, 3), (5, 2), (40, 7), (2, 9)])
def test_the_projection_is_public_and_orthonormal(d, r):
    P = public_projection(d, r)
    assert P.shape == (d, min(r, d))
    assert np.abs(P.T @ P - np.eye(min(r, d))).max() < 1e-12
    assert np.linalg.norm(P, 2) <= spectral_norm_bound(P) <= 1 + 1e-9
    assert (public_projection(d, r) == P).all()


@settings(max_examples=120, deadline=None)
@given(
    st.lists(anything, min_size=4, max_size=4),
    st.lists(anything, min_size=4, max_size=4),
    st.integers(1, 5),
    st.floats(1e-6, 1e6),
)
@example([1e308] * 4, [-1e308] * 4, 2, 1.0)
def test_no_row_however_strange_moves_the_image_beyond_its_sensitivity(one, other, dim, bound):
    geometry = Geometry(4, dim, AnyRow(bound), centre=(0.5, -2.0, 0.0, 1e3))
    Q = quantised([one, other], geometry).astype(float)
    assert np.linalg.norm(Q[0] - Q[1]) <= geometry.sensitivity
    assert np.linalg.norm(Q, axis=1).max() * geometry.step <= bound * (1 + 1e-5)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4),
    st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    st.integers(1, 5),
    st.sampled_from([None, 3.0, 1e8]),
)
def test_a_row_that_moves_by_one_moves_the_image_by_its_sensitivity_at_most(start, way, dim, bound):
    way = np.array(way) / max(1.0, np.linalg.norm(way))
    end = np.array(start) + way
    while np.linalg.norm(end - start) > 1.0:  # the sum itself was rounded
        end = np.nextafter(end, start)
    geometry = Geometry(4, dim, NearRow(bound), centre=())
    Q = quantised([start, end.tolist()], geometry).astype(float)
    assert np.linalg.norm(Q[0] - Q[1]) <= geometry.sensitivity


def test_the_sensitivity_is_reached_and_hardly_exceeded():
    """Opposite ends of the ball; and Δ‖P‖ + h√r is all there is but for the rounding of doubles."""
    for dim in (1, 2, 3):
        geometry = Geometry(3, dim, AnyRow(2.0), centre=())
        direction = geometry.projection[:, 0] * 2.0
        Q = quantised([direction.tolist(), (-direction).tolist()], geometry).astype(float)
        moved = np.linalg.norm(Q[0] - Q[1]) * geometry.step
        assert 4.0 * (1 - 1e-5) < moved <= geometry.sensitivity * geometry.step < 4.0 * (1 + 1e-5)


def test_a_rows_image_does_not_depend_on_its_place():
    """Bit for bit, in any company: a matrix product may round a row by where it stands."""
    rng = np.random.default_rng(3)
    geometry = Geometry(7, 3, AnyRow(5.0), centre=())
    rows = (rng.normal(size=(97, 7)) * 3).tolist()
    whole = quantised(rows, geometry)
    for i in (0, 13, 96):
        assert (quantised([rows[i]], geometry)[0] == whole[i]).all()
    assert (quantised(rows[::-1], geometry)[::-1] == whole).all()


# The laws that a study's methods keep, for the exchange.


def test_an_exchange_is_no_method_and_is_not_forgotten():
    assert set(EXCHANGES).isdisjoint(METHODS)
    assert {"outsourced": Outsourced} == EXCHANGES
    with pytest.raises(StudyInvalid, match="dpbo curate publish"):
        method_named("outsourced", {})


@pytest.mark.parametrize("relation", [REPLACE, BY_ONE])
def test_the_plan_is_the_promise(relation):
    box = Outsourced(2.0, 1e-6, relation=relation, norm_bound=3.0)
    plan = box.plan(100, 4)
    assert plan == box.plan(100, 4)
    guarantee, (spend,) = plan.guarantee, plan.spends
    assert (guarantee.epsilon, guarantee.delta, guarantee.relation) == (2.0, 1e-6, relation)
    assert guarantee.unit is PrivacyUnit.CANDIDATE_ROW
    assert guarantee.assumptions == ()
    assert spend.rho_units == largest_rho(2.0, 1e-6)
    assert spend.noise_scale == pytest.approx(spend.sensitivity / math.sqrt(2 * spend.rho), rel=1e-9)
    assert spend.sensitivity == pytest.approx(6.0 if relation is REPLACE else 1.0, rel=1e-5)
    assert box.plan(10, 4).spends == plan.spends  # one row differs, however many there are


def test_published_is_worth_nothing_and_says_so():
    plan = Outsourced(1.0, 1e-6, transform="published", dim=10).plan(100, 2)
    assert plan.guarantee.epsilon == math.inf
    assert plan.guarantee.evidence.refuted
    assert plan.guarantee.relation is BY_ONE
    assert "solves for the map" in plan.guarantee.in_words()


IMPOSSIBLE = (
    {"norm_bound": None, "relation": REPLACE},
    {"norm_bound": 0.0}, {"norm_bound": math.nan}, {"dim": 0}, {"epsilon": 0.0}, {"epsilon": math.nan},
    {"delta": 0.0}, {"delta": 1.0}, {"centre": (math.inf,)}, {"transform": "publishd"},
    {"norm_bound": None, "transform": "published", "relation": REPLACE},
    {"relation": NeighboringRelation.ADD_OR_REMOVE_ONE},
)  # fmt: skip


def test_impossible_boxes_are_messages():
    sound = {"epsilon": 1.0, "delta": 1e-6, "norm_bound": 1.0}
    for wrong in IMPOSSIBLE:
        with pytest.raises(StudyInvalid):
            Outsourced(**sound | wrong)
    assert Outsourced(epsilon=1.0, delta=1e-6).relation is BY_ONE  # the paper's
    with pytest.raises(StudyInvalid, match="centre"):
        Outsourced(**sound, centre=(0.0,)).plan(10, 2)
    with pytest.raises(StudyInvalid, match="no rows"):
        Outsourced(**sound).plan(0, 2)


# Publishing.


def test_without_noise_the_table_is_the_rows_in_a_secret_order(tmp_path):
    w = world(tmp_path, public=True)
    box = Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=100.0)
    published = w.publish(box, source=NO_NOISE)
    table, _ = read_published(tmp_path / "Z.parquet")
    X = np.loadtxt(tmp_path / "X.csv", delimiter=",", skiprows=1)
    order = Vault(w.vaults / table.publication).order(60)
    assert np.abs(table.rows - X[order]).max() <= box.geometry(3).step
    assert sorted(order.tolist()) == list(range(60))
    assert order.tolist() != list(range(60))
    assert published.release.guarantee.epsilon == math.inf  # injected noise protects nobody


def test_the_file_holds_its_columns_and_the_promise_and_nothing_else(tmp_path):
    w = world(tmp_path)
    release = w.publish(Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=4.0, dim=2)).release
    arrow = pq.read_table(tmp_path / "Z.parquet")
    assert arrow.column_names == ["z0", "z1"]
    assert arrow.num_rows == 60
    footer = json.loads(arrow.schema.metadata[b"dpbo"])
    assert set(footer) == {"publication", "noise_scale", "promise"}
    assert footer["promise"] == release.guarantee.to_json()
    assert footer["noise_scale"] == release.spends[0].noise_scale
    assert set(arrow.schema.metadata) == {b"dpbo"}
    assert release.value["rows"] == 60
    assert "key" not in json.dumps(release.to_json())


def test_the_same_publication_is_drawn_once_and_paid_once(tmp_path):
    w = world(tmp_path)
    first = w.publish()
    bytes_ = (tmp_path / "Z.parquet").read_bytes()
    again = w.publish(out="again.parquet")
    assert (first.replayed, again.replayed) == (False, True)
    assert (tmp_path / "again.parquet").read_bytes() == bytes_
    assert first.release == again.release
    (account,) = w.ledger.accounts("people")
    assert account.spent.rho_units == largest_rho(3.0, 1e-6)
    other = w.publish(edition="2", out="other.parquet")
    assert other.release.value["digest"] != first.release.value["digest"]
    (account,) = w.ledger.accounts("people")
    assert account.spent.rho_units == 2 * largest_rho(3.0, 1e-6)


def test_refusals_charge_nothing_and_publish_nothing(tmp_path):
    w = world(tmp_path, epsilon=2.0)
    for box, error in (
        (Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=4.0), BudgetExceeded),
        (Outsourced(1.0, 1e-6, relation=BY_ONE), BudgetRefused),
        (Outsourced(1.0, 1e-6, transform="published"), EvidenceRefuted),
    ):
        with pytest.raises(error) as refused:
            w.publish(box)
        assert refused.value.exit_code == 3
    with pytest.raises(NoiseNotPrivate):
        w.publish(Outsourced(1.0, 1e-6, relation=REPLACE, norm_bound=1.0), source=NO_NOISE)
    assert w.ledger.accounts("people")[0].entries == ()
    assert not (tmp_path / "Z.parquet").exists()
    nobody = World(tmp_path / "elsewhere")
    nobody.folder.mkdir()
    write_csv(nobody.folder / "X.csv", np.zeros((3, 2)))
    with pytest.raises(NoBudget):
        nobody.publish()


def test_a_lost_copy_is_not_drawn_again(tmp_path):
    w = world(tmp_path)
    release = w.publish().release
    vault = Vault(w.vaults / release.release_id)
    vault.table.write_bytes(vault.table.read_bytes()[:-1])
    with pytest.raises(DpboError, match="curator's copy"):
        w.publish()


def test_the_data_file_is_never_written_over(tmp_path):
    w = world(tmp_path)
    with pytest.raises(StudyInvalid, match="data file itself"):
        w.publish(out="X.csv")


def test_a_strange_row_changes_no_count_no_letter_and_no_file_but_its_image(tmp_path):
    w = world(tmp_path)
    lines = (tmp_path / "X.csv").read_text().splitlines()
    for number, row in enumerate(("nan,inf,x", ",,", "1e999,-1e999,0", "1,2", '"a,b', "\xff")):
        lines[7] = row
        (tmp_path / "X.csv").write_bytes("\n".join([*lines, ""]).encode("latin-1"))
        release = w.publish(edition=str(number)).release
        assert release.value["rows"] == 60
        assert read_published(tmp_path / "Z.parquet")[0].rows.shape == (60, 3)


def test_a_failure_with_rows_in_hand_says_nothing(tmp_path, monkeypatch):
    w = world(tmp_path)

    def fails(*_):
        raise ValueError("row 17 earns 987654321")

    monkeypatch.setattr(curator, "image", fails)
    with pytest.raises(Sealed) as failed:
        w.publish()
    assert "987654321" not in str(failed.value)
    assert failed.value.__context__ is None
    assert failed.value.__cause__ is None


def test_the_vault_is_its_owners_alone(tmp_path):
    w = world(tmp_path)
    release = w.publish().release
    w.suggest()
    w.answer()
    folder = w.vaults / release.release_id
    assert folder.stat().st_mode & 0o077 == 0
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    key = (folder / "key").read_text()
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "key":
            assert key.encode() not in path.read_bytes()


def test_every_order_is_as_likely(tmp_path):
    """All 24 orders of 4 rows over 720 keys, chi-square; false alarm below 1e-5."""
    import secrets

    vault, counted = Vault(tmp_path), {}
    for _ in range(720):
        (tmp_path / "key").write_text(secrets.token_hex(32))
        order = tuple(vault.order(4).tolist())
        counted[order] = counted.get(order, 0) + 1
    assert len(counted) == 24
    assert stats.chisquare(list(counted.values())).pvalue > 1e-5
    (tmp_path / "key").write_text("short")
    with pytest.raises(DpboError, match="secret key"):
        vault.order(4)


# Answering.


@pytest.fixture
def asked(tmp_path):
    """A table that is published, and whose modeller asked about a row."""
    w = world(tmp_path)
    w.publish()
    w.suggest()
    return w


def test_public_answers_must_be_taken_on_by_name(asked):
    with pytest.raises(AssumptionNotAccepted) as refused:
        asked.answer(accepts=())
    assert refused.value.exit_code == 4
    assert "answers_public" in str(refused.value)
    assert asked.answer().noise_scale == 0.0


def test_answers_are_the_right_rows(tmp_path):
    w = world(tmp_path, public=True)
    w.publish(Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=100.0), source=NO_NOISE)
    rows = read_published(tmp_path / "Z.parquet")[0].rows
    for _ in range(8):
        query = w.suggest()
        assert w.answer().value == pytest.approx(-((rows[query.row] - 0.5) ** 2).sum(), abs=1e-3)
        w.update()


def test_private_answers_cost_once_and_repeat_themselves(tmp_path):
    w = world(tmp_path)
    w.publish()
    table, price = largest_rho(3.0, 1e-6), PRIVATE.plan(w.publish().release.guarantee).spends[0].rho_units
    given = {}
    for state in ("S", "another"):
        for _ in range(3):
            query = w.suggest(state)
            answer = w.answer(state, private=PRIVATE, accepts=())
            assert w.answer(state, private=PRIVATE, accepts=()) == answer
            assert given.setdefault(query.row, answer.value) == answer.value  # the other search asks it too
            w.update(state)
    (account,) = w.ledger.accounts("people")
    assert account.spent.rho_units == table + price
    assert [entry.study for entry in account.entries] == ["people: table", "people: answers"]
    assert answer.noise_scale == pytest.approx(20.0 / math.sqrt(2 * price / 1e12), rel=1e-9)


def test_a_price_below_the_ledgers_unit_is_refused_not_rounded_up():
    with pytest.raises(StudyInvalid, match="too small"):
        PrivateAnswers(0.0, 1.0, 1e-9, 1e-12)
    with pytest.raises(StudyInvalid, match="too small"):
        Outsourced(1e-9, 1e-12, relation=REPLACE, norm_bound=1.0).plan(10, 2)


def test_an_answer_is_clipped_whatever_it_is():
    for answer, steps in ((-1e308, 0), (1e308, 2**24), (math.nan, 2**23), (math.inf, 2**23), (-10.0, 2**23)):
        assert PRIVATE.steps(answer) == steps
    assert PRIVATE.value(2**24) == 0.0


@settings(max_examples=200)
@given(st.floats(), st.floats())
def test_no_answer_moves_the_sum_beyond_its_sensitivity(one, other):
    moved = abs(PRIVATE.steps(one) - PRIVATE.steps(other))
    assert moved <= PRIVATE.mechanism.sensitivity


def forget(w):
    (kept,) = w.vaults.glob("*/answers.json")
    kept.unlink()


def test_the_ledger_decides_how_a_table_is_answered_and_not_the_vault(asked):
    """As it was reported: without answers.json a row answered privately before was told exactly, uncharged."""
    first = asked.answer(private=PRIVATE, accepts=())
    spent = asked.ledger.accounts("people")[0].spent
    forget(asked)
    for other in (None, replace(PRIVATE, low=-10.0), replace(PRIVATE, epsilon=2.0)):
        with pytest.raises(StudyInvalid, match="another way"):
            asked.answer(private=other)
    assert asked.answer(private=PRIVATE, accepts=()) == first  # drawn once, in the ledger
    assert asked.ledger.accounts("people")[0].spent == spent


def test_a_row_has_one_answer_at_whichever_step_of_whichever_search(asked, tmp_path):
    """From the ledger alone: two noises on one row's answer would be paid for once."""
    query = asked.suggest()
    first = asked.answer(private=PRIVATE, accepts=())
    forget(asked)
    for step, row in ((1, (query.row + 1) % 60), (2, query.row)):
        other = replace(query, session="0" * 16, step=step, row=row)
        answer = Curator(QueryContext(asked.ledger), asked.vaults).answer(
            other, tmp_path / "Y.csv", private=PRIVATE
        )
    assert answer.value == first.value


def test_a_table_answered_publicly_stays_so_without_its_vault(asked):
    first = asked.answer()
    forget(asked)
    with pytest.raises(StudyInvalid, match="another way"):
        asked.answer(private=PRIVATE, accepts=())
    assert asked.answer() == first


def test_an_answer_that_was_refused_decides_nothing(tmp_path):
    w = world(tmp_path, epsilon=3.0, delta=1e-6)
    w.publish()
    w.suggest()
    with pytest.raises(BudgetExceeded):
        w.answer(private=PRIVATE, accepts=())
    assert w.answer().noise_scale == 0.0


def test_an_answer_that_was_not_measured_is_asked_for_by_its_row(asked, tmp_path):
    query = asked.suggest()
    place = int(Vault(asked.vaults / query.publication).order(60)[query.row])
    lines = (tmp_path / "Y.csv").read_text().splitlines()
    lines[place + 1] = "nan"
    (tmp_path / "Y.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(StudyInvalid, match=f"row {place + 1} of the data"):
        asked.answer()
    assert math.isfinite(asked.answer(private=PRIVATE, accepts=()).value)  # nothing in a private answer raises


def test_answers_of_another_size_are_refused(asked, tmp_path):
    for text, private in itertools.product(("y\n1\n2\n", "a,b\n1,2\n", ""), (None, PRIVATE)):
        (tmp_path / "Y.csv").write_text(text)
        with pytest.raises(StudyInvalid):
            asked.answer(private=private)
