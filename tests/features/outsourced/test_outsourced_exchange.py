"""The two parties over files: messages that lie, replays, kills at random moments, the command, the leaks."""

import hashlib
import json
import math
import os
import signal
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from canary import forms_of_number, search
from exchange_kills import CONTEXT, campaign
from exchanges import PRIVATE, world
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbo.features.outsourced.messages import Answer, Query, digest, read_message, read_published, write_message
from dpbo_core.errors import StudyInvalid
from dpbo_core.methods import EXCHANGES

QUERY = Query("0123456789abcdef", "fedcba9876543210", 3, 17)
ANSWER = Answer.to(QUERY, value=-1.25, noise_scale=0.5)


# Messages.


@pytest.mark.parametrize("message", [QUERY, ANSWER])
def test_a_message_comes_back_as_it_went(tmp_path, message):
    write_message(message, tmp_path / "m.json")
    assert read_message(type(message), tmp_path / "m.json") == message
    with pytest.raises(StudyInvalid):
        read_message(Answer if isinstance(message, Query) else Query, tmp_path / "m.json")


def document(message):
    return {"kind": message.kind, "format": 1, **vars(message), "digest": digest(message)}


def signed(**changes):
    """A changed answer whose digest was made to fit: what somebody who means harm would send."""
    text = document(ANSWER) | changes
    rest = {name: value for name, value in text.items() if name != "digest"}
    made = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return json.dumps(text | {"digest": made})


HOSTILE = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b"[" * 60_000,
    b"{" * 70_000,
    json.dumps(document(ANSWER) | {"value": 0.0}).encode(),
    json.dumps(document(ANSWER) | {"more": 1}).encode(),
    signed(step=0).encode(),
    signed(step=True).encode(),
    signed(step=2**31).encode(),
    signed(row=-1).encode(),
    signed(row=1.0).encode(),
    signed(value="1").encode(),
    signed(value=None).encode(),
    signed(value=math.nan).encode(),
    signed(value=math.inf).encode(),
    signed(value=1e101).encode(),
    signed(value=10**400).encode(),
    signed(noise_scale=-1.0).encode(),
    signed(publication="../../../etc/pass").encode(),
    signed(publication="0123456789ABCDEF").encode(),
    signed(session="").encode(),
    signed(query="0" * 63).encode(),
    signed(kind="dpbo query").encode(),
    signed(format=2).encode(),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_message_is_one_letter_that_repeats_none_of_it(tmp_path, text):
    path = tmp_path / "answer.json"
    path.write_bytes(text)
    with pytest.raises(StudyInvalid) as refused:
        read_message(Answer, path)
    assert "passwd" not in str(refused.value)
    assert "etc" not in str(refused.value)
    with pytest.raises(StudyInvalid):
        read_message(Answer, tmp_path / "missing.json")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 400))
def test_a_damaged_message_is_never_taken(tmp_path_factory, junk, at):
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    write_message(ANSWER, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + junk + whole[at + len(junk) :])
    with suppress(StudyInvalid):
        assert read_message(Answer, path) == ANSWER


def test_a_damaged_table_and_one_of_another_program_are_letters(tmp_path):
    w = world(tmp_path)
    w.publish()
    whole = (tmp_path / "Z.parquet").read_bytes()
    for damage in (b"", b"PAR1", whole[:-40]):
        (tmp_path / "Z.parquet").write_bytes(damage)
        with pytest.raises(StudyInvalid, match="dpbo curate publish wrote"):
            w.suggest()
    (tmp_path / "Z.parquet").unlink()
    with pytest.raises(StudyInvalid, match="cannot be read"):
        w.suggest()
    for columns in ({"z0": [1.0]}, {"a": [1.0]}, {"z0": [math.nan]}):
        pq.write_table(pa.table(columns), tmp_path / "Z.parquet")
        with pytest.raises(StudyInvalid):
            read_published(tmp_path / "Z.parquet")


# Order and replay.


def test_replays_are_refused_and_change_nothing(tmp_path):
    w = world(tmp_path)
    w.publish()
    w.exchange()
    state = (tmp_path / "S").read_bytes()
    with pytest.raises(StudyInvalid, match="taken in already"):
        w.update()
    old = (tmp_path / "A-S.json").read_bytes()
    w.exchange()
    (tmp_path / "A-S.json").write_bytes(old)
    with pytest.raises(StudyInvalid, match="taken in already"):
        w.update()
    w.suggest()
    with pytest.raises(StudyInvalid, match="taken in already"):
        w.update()
    assert (tmp_path / "S").read_bytes() != state
    w.suggest("T")
    w.answer("T")
    (tmp_path / "A-S.json").write_bytes((tmp_path / "A-T.json").read_bytes())
    with pytest.raises(StudyInvalid, match="another search"):
        w.update()


def test_an_answer_to_another_row_is_refused(tmp_path):
    w = world(tmp_path)
    w.publish()
    query = w.suggest()
    other = Query(query.publication, query.session, query.step, (query.row + 1) % 60)
    write_message(Answer.to(other, value=0.0, noise_scale=0.0), tmp_path / "A-S.json")
    with pytest.raises(StudyInvalid, match="not to the query that waits"):
        w.update()
    assert w.suggest() == query


def test_the_curator_refuses_what_fits_no_step(tmp_path):
    w = world(tmp_path)
    w.publish()
    first = w.suggest()
    w.answer()
    w.update()
    query = w.suggest()
    for changed, said in (
        (Query(query.publication, query.session, 1, (first.row + 1) % 60), "answered already"),
        (Query(query.publication, query.session, 4, query.row), "were answered"),
        (Query(query.publication, query.session, 2, 60), "table of 60"),
        (Query("0" * 16, query.session, 2, 1), "not published from here"),
    ):
        write_message(changed, tmp_path / "Q-S.json")
        with pytest.raises(StudyInvalid, match=said) as refused:
            w.answer()
        assert refused.value.exit_code == 2
    assert w.suggest() == query
    w.answer()


def test_an_edited_state_is_a_letter(tmp_path):
    w = world(tmp_path)
    w.publish()
    w.exchange()
    state = json.loads((tmp_path / "S").read_text())
    wrong = ({"row": 10**6}, {"row": 0.5}, {"value": None}, {"value": 1e200})
    answers = [{"answers": [{"row": 1, "value": 0.0, "noise_scale": 0.0} | change]} for change in wrong]
    own = ({"format": 2}, {"answers": 3}, {"waiting": -1}, {"session": "x"}, {"publication": "../.."}, {"extra": 1})
    for change in (*answers, *own, {"table": "0" * 64}):
        (tmp_path / "S").write_text(json.dumps(state | change))
        with pytest.raises(StudyInvalid):
            w.suggest()


# Kills.


CAMPAIGNS = {"outsourced": campaign}


@pytest.mark.parametrize("kind", EXCHANGES)
def test_either_party_killed_anywhere_ends_in_the_same_state(tmp_path, kind):
    """The short form of the campaign; every exchange has one, or this fails."""
    figures = CAMPAIGNS[kind](tmp_path, searches=1, exchanges=2, life=0.04)
    assert figures.kills > 0
    assert figures.clean, figures


@pytest.mark.parametrize(("where", "call", "nth", "is_new"), [
    (os, "fchmod", 1, False), (os, "fsync", 1, False), (Path, "replace", 1, False), (os, "fsync", 2, True),
])  # fmt: skip
def test_a_state_killed_at_any_call_is_the_old_or_the_new(tmp_path, monkeypatch, where, call, nth, is_new):
    """The same kill in what does write it: instead of each call to the system, one after another."""
    w = world(tmp_path)
    w.publish()
    w.exchange()
    old, calls, honest = (tmp_path / "S").read_bytes(), [], getattr(where, call)

    def killing(*arguments, **named):
        calls.append(arguments)
        return os.kill(os.getpid(), signal.SIGKILL) if len(calls) == nth else honest(*arguments, **named)

    with monkeypatch.context() as planted:
        planted.setattr(where, call, killing)
        child = CONTEXT.Process(target=w.suggest)
        child.start()
        child.join()
    assert child.exitcode == -signal.SIGKILL
    assert ((tmp_path / "S").read_bytes() != old) == is_new
    assert w.suggest().step == 2


# Leaks.


@pytest.mark.parametrize("kind", EXCHANGES)
def test_no_store_and_no_message_holds_a_planted_value(tmp_path, kind):
    """A planted feature and a planted answer, far out, in a run with private answers and a refusal."""
    w = {"outsourced": world}[kind](tmp_path)
    feature, value = 73914.285714285714, -48211.987654321
    rows, answers = ((tmp_path / name).read_text().splitlines() for name in ("X.csv", "Y.csv"))
    rows[5], answers[5] = f"{feature!r},0.1,0.2", repr(value)
    (tmp_path / "X.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "Y.csv").write_text("\n".join(answers) + "\n")
    w.publish()
    for _ in range(6):
        w.exchange(private=PRIVATE, accepts=())
    with pytest.raises(StudyInvalid):
        w.update()
    for name in ("X.csv", "Y.csv"):
        (tmp_path / name).unlink()
    secrets = {"feature": forms_of_number(feature), "answer": forms_of_number(value)}
    assert search(tmp_path, secrets) == set()
    (tmp_path / "planted").write_text(repr(feature))
    assert search(tmp_path, secrets) == {("planted", "feature")}
