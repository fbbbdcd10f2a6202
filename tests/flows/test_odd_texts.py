"""Texts with signs at which Python ends a line, and JSON does not: whatever was written is read back as it was."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from dpbo.flows.cli.running import lines_of
from dpbo.flows.cli.verify import check_certificate
from dpbo.tasks.reporting.release_files import check_receipt, new_key, public_keys, receipt_of, write_release
from dpbo_core import Categorical, PrivateSearch
from dpbo_core.errors import StudyInvalid

ENDS_OF_LINES = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
ODD = f"a{ENDS_OF_LINES}\t\x7f\ufeff\xa0\u202e\U0001f600b"
X = pd.DataFrame({"a": np.linspace(-1.0, 1.0, 80), "b": np.tile([0.0, 1.0], 40)})
Y = np.where(X["a"] > 0, f"y{ODD}", "no").astype(object)


def searched(y, **changes):
    search = PrivateSearch(
        LogisticRegression(),
        {"C": Categorical([0.5, 1.0])},
        epsilon=4.0,
        dataset="d",
        budget=(9.0, 1e-5),
        **changes,
    )
    return search.fit(X[::2], y[::2], X_validation=X[1::2], y_validation=y[1::2])


def test_a_sound_release_and_a_sound_export_verify_whatever_its_texts_hold(here, dpbo, monkeypatch):
    monkeypatch.setenv("DPBO_SIGNING_KEY", str(here / "key"))
    _, public, _ = new_key()
    search = searched(Y, method="private_grid")
    table = X.assign(ward=np.where(X["b"] > 0, f"w{ODD}", f"{ODD}w"))
    groups = tuple(sorted(set(table["ward"])))
    report = search.evaluate(
        X[::2], Y[::2], X_validation=table[1::2], y_validation=Y[1::2], epsilon=2.0, group="ward", groups=groups
    )
    for place, release in enumerate((search.release_, report.release)):
        file = Path(f"{place}.json")
        write_release(release, file)
        assert receipt_of(file).exists()
        assert "edition 1" in check_certificate(file)
        assert check_receipt(file, file.read_bytes(), public_keys([public]))
        assert "Signed by key" in dpbo("verify", file, "--key", public)[1]
    assert set(report.release.value["groups"]) >= set(groups)
    Path("x.jsonl").write_bytes(dpbo("budget", "export")[1].encode())
    assert len(lines_of(Path("x.jsonl"))) == len(Path("x.jsonl").read_bytes().split(b"\n")) - 1
    assert "The ledger is whole" in dpbo("budget", "verify", "x.jsonl")[1]
    assert "has everything that the export has" in dpbo("budget", "recover", "x.jsonl")[1]


def test_only_a_newline_ends_a_line(here):
    Path("t").write_bytes(f"one{ODD[2:]}\r\ntwo\n".encode())
    assert lines_of(Path("t")) == [f"one{ODD[2:]}\r", "two"]
    Path("t").write_bytes(b"")
    assert lines_of(Path("t")) == []


def test_a_text_that_utf_8_cannot_write_is_refused_before_anything_is_charged(here):
    """No ledger could record what is drawn under it."""
    with pytest.raises(StudyInvalid, match="has no value at record"):
        searched(np.where(Y == "no", "no", "\ud800").astype(object))
    with pytest.raises(StudyInvalid, match="holds a text that UTF-8 cannot write"):
        PrivateSearch(
            LogisticRegression(), {"solver": Categorical(["lbfgs", "\udfff"])}, epsilon=1.0, dataset="d"
        ).fit(X[::2], Y[::2], X_validation=X[1::2], y_validation=Y[1::2])
    sensitive = Y.copy()
    sensitive[1::4] = "\ud800"  # there it costs its own record
    assert searched(sensitive, method="private_grid").release_.value["hyperparameters"]
