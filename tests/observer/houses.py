"""Neighbouring validation files: they differ in the 16 records of one person, and in nothing that a listing shows.

Of 80 records 64 or 72 are scored right in the first world; in the others one person's 16 are all wrong, or hold no
numbers. So exact sums lie on both sides of 2³⁰ grid steps, where a Python integer takes another byte, and a private
path goes elsewhere. Every record has one width in bytes: the size of a file is its owner's to show.
"""

import io

import numpy as np

HEAD = "a,b,ill"
M, THEIRS, TRAINING = 80, 16, 60
WORLDS = ("first", "other scores", "no numbers")


def _row(a: float, b: float, ill: int) -> str:
    return f"{a:+.6f},{b:+.6f},{ill}"


def _rows(rng: np.random.Generator, n: int, wrong: int) -> list[str]:
    x = rng.normal(size=(n, 2)) + 0.0
    x[:, 0] = np.where(x[:, 0] > 0, 1.0, -1.0) * (0.5 + np.abs(x[:, 0]) / 4.0)
    return [_row(a, b, int(a > 0) ^ int(i < wrong)) for i, (a, b) in enumerate(x)]


def _broken(row: str) -> str:
    """A record of the same width without a number in it."""
    a, b, _ = row.split(",")
    return ",".join(("no number"[: len(a)].ljust(len(a), "?"), "?" * len(b), "?"))


def tables(world: str) -> tuple[list[str], list[str]]:
    """The lines of the public table, and of the validation table of a world."""
    rng = np.random.default_rng(11)
    training, others, person = _rows(rng, TRAINING, 6), _rows(rng, M - THEIRS, 8), _rows(rng, THEIRS, 0)
    if world == "other scores":
        person = [row[:-1] + str(1 - int(row[-1])) for row in person]
    if world == "no numbers":
        person = [_broken(row) for row in person]
    return training, [*person[: THEIRS // 2], *others, *person[THEIRS // 2 :]]


def files(world: str, *, parts: int = 0) -> dict[str, str]:
    """The files of a team's folder by their names, a byte a character; the validation table in Parquet parts."""
    training, validation = tables(world)
    made = {"training.csv": "\n".join([HEAD, *training]) + "\n"}
    if not parts:
        return made | {"validation.csv": "\n".join([HEAD, *validation]) + "\n"}
    made = {"training.parquet": _parquet(training)}
    for part in range(parts):
        made[f"validation/{part:02d}.parquet"] = _parquet(validation[part::parts])
    return made


def _parquet(rows: list[str]) -> str:
    """Bytes in number as rows are: neither packed nor summed up. What is no number is infinite."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = [row.split(",") for row in rows]
    broken = ["?" in row for row in rows]
    columns = {
        name: pa.array([np.inf if bad else float(row[j]) for row, bad in zip(cells, broken, strict=True)])
        for j, name in enumerate(HEAD.split(","))
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="none", use_dictionary=False, write_statistics=False)
    return sink.getvalue().decode("latin-1")
