"""Cross-validating an estimator of others leaves nothing in the process that will open the records."""

import time
from contextlib import suppress
from pathlib import Path

import public_work
import pytest

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.public_process import numbers_of

HERE = Path(__file__).parent


def runs(pid):
    """Whether a process does; of one that ended /proc has no command, or nothing at all."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


def test_nothing_that_it_started_is_left():
    """A process in a session of its own outlived the group that was killed."""
    started, end = numbers_of(public_work.leaving), time.monotonic() + 5.0  # the kernel takes a moment
    assert len(started) == 3
    while any(map(runs, started)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(runs, started))


def test_no_number_counts_of_a_process_that_did_not_end_the_others():
    """What the work had started outlived it, beside the records, once it killed the one that was to end it."""
    with pytest.raises(StudyInvalid, match="ended without a result"):
        numbers_of(public_work.without_a_warden)


def test_only_numbers_come_back_or_its_own_message():
    with pytest.raises(StudyInvalid, match="in a process of its own"):
        numbers_of(public_work.texts)
    with pytest.raises(StudyInvalid, match=r"(?s)no parameter 'D'.*a misspelt name.*write 'C'"):
        numbers_of(public_work.refusal)


def test_it_sees_no_secret_of_the_environment(monkeypatch):
    for name in public_work.SECRETS:
        monkeypatch.setenv(name, "canary")
    assert numbers_of(public_work.environment).tolist() == [0]
