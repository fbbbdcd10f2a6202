"""Hostile validation files by the thousand: each must give exactly its records, a finite sum, and not a word.

A file's lines are drawn from nasty ones, mutated honest ones and raw bytes. Whatever they are, the reader must
return one record a line, no exception, no warning, and a sum of scores that one other line moves by at most one
record.
"""

import io
import random
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dpbo_core.data import Preprocessing, read_table, table_of
from dpbo_core.data.read_mode import SENSITIVE_FILE
from dpbo_core.models.linear.fit import train
from dpbo_core.models.scores.grid import GRID
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.scoring.in_memory import Objective

NASTY = [
    b"", b"\r", b",", b",,,,", b'"', b'"1,2', b'"a""b",1,2', b"nan,inf,-inf", b"1e308,-1e308,1", b"1e999,1,0",
    b"\xff\xfe\x00,1,1", b"1,2", b"1,2,3,4", b"x,y,z", b"1,2,maybe", b"\x00,\x00,\x00", b"1,2,1\r",
    b"\xef\xbb\xbf1,2,0", b"1;2;1", b"9" * 500 + b",1,1", b"1_0,2,1", b"0x10,1,0", b" 1 , 2 , 1 ",
    b"NULL,None,NA", b"1," * 200, b"z" * 140_000,
]  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """Files read, and those that raised, spoke, lost a record or moved a sum too far; these must be 0."""

    files: int = 0
    raised: int = 0
    spoke: int = 0
    miscounted: int = 0
    moved_too_far: int = 0

    @property
    def clean(self) -> bool:
        return self.raised == self.spoke == self.miscounted == self.moved_too_far == 0


def _line(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(NASTY)
    honest = f"{rng.gauss(0, 1):.4f},{rng.gauss(0, 1):.4f},{rng.randint(0, 1)}".encode()
    if kind < 0.75:
        return honest
    if kind < 0.9:
        place = rng.randrange(len(honest))
        return (honest[:place] + bytes([rng.randrange(256)]) + honest[place + 1 :]).replace(b"\n", b"")
    return rng.randbytes(rng.randrange(40)).replace(b"\n", b"")


def campaign(n_files: int, seed: int = 0) -> Figures:
    """`n_files` files of 1 to 6 records, each against the same file with one line replaced."""
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    rows = generator.normal(size=(40, 2))
    public = table_of({"a": list(rows[:, 0]), "b": list(rows[:, 1]), "y": [int(x > 0) for x in rows[:, 0]]})
    fitted = Preprocessing.fit(public, "y", unit_ball=True)
    encoded = fitted.transform(public)
    model = train(encoded.X, encoded.signs, loss="logistic", regularization=0.01)
    raised = spoke = miscounted = too_far = 0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "validation.csv"

        def total(lines: list[bytes]) -> int:
            nonlocal miscounted
            path.write_bytes(b"a,b,y\n" + b"".join(line + b"\n" for line in lines))
            table = read_table(path, mode=SENSITIVE_FILE, shown_as="validation.csv")
            miscounted += table.n_records != len(lines)
            return Objective(Sensitive(fitted.transform(table)), Sigmoid(10.0)).evaluate(model).expose()

        for _ in range(n_files):
            lines = [_line(rng) for _ in range(rng.randint(1, 6))]
            other = [*lines]
            other[rng.randrange(len(lines))] = _line(rng)
            out = io.StringIO()
            with warnings.catch_warnings(record=True) as warned, redirect_stdout(out), redirect_stderr(out):
                warnings.simplefilter("always")
                try:
                    too_far += abs(total(lines) - total(other)) > GRID
                except Exception:  # noqa: BLE001  the campaign counts them
                    raised += 1
            spoke += bool(warned or out.getvalue())
    return Figures(n_files, raised, spoke, miscounted, too_far)
