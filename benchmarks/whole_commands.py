"""`dpbo tune`, whole, beside the loop that a user would write: the same files, models and records.

    python -m benchmarks.whole_commands [--json]

A loop is pyarrow and scikit-learn in a process of its own: it reads both sides, scales once, trains each model and
scores it part by part. One thread each; commands and loops in turn. Seconds are the processor's with all that is
started, Prefect's server and MLflow too, except where a row says "by the clock". The least of a command is one that
trains and scores next to nothing. Where two workers can gain little, 3% less is taken for noise.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.startup import COMMAND, STUDY
from benchmarks.timing import Spread, ratio

ROUNDS, FEATURES, TOGETHER = 3, 30, 8
SIDES = """
def sides(path):
    table = pq.read_table(path, use_threads=False)
    y = table["y"].to_numpy()
    return np.stack([table[name].to_numpy() for name in table.column_names if name != "y"], axis=1), y
"""
LOOP = f"""
import sys, numpy as np, pyarrow.parquet as pq
from sklearn.preprocessing import StandardScaler
estimator, values, training, *parts = sys.argv[1:]
{SIDES}"""
LOOP += """
X, y = sides(training)
scaler = StandardScaler().fit(X)
if estimator == "logistic":
    from sklearn.linear_model import LogisticRegression
    made = [LogisticRegression(C=float(c)) for c in values.split(",")]
else:
    from sklearn.ensemble import RandomForestClassifier
    made = [RandomForestClassifier(50, max_depth=int(d), random_state=0, n_jobs=1) for d in values.split(",")]
models = [one.fit(scaler.transform(X), y) for one in made]
right = np.zeros(len(models), dtype=np.int64)
for part in parts:
    X, y = sides(part)
    X = scaler.transform(X)
    right += [int((one.predict(X) == y).sum()) for one in models]
print(right.tolist())
"""
LOGISTIC = {"estimator": '"logistic"'}
FOREST = {
    "estimator": '"sklearn.ensemble.RandomForestClassifier"',
    "params": "{ n_estimators = 50, random_state = 0, n_jobs = 1 }",
    "standardize": "false",
}
Taken = tuple[float, float, float]  # seconds by the clock and of the processor, and the largest process's GB


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="dpbo-whole-") as name:
        folder = Path(name)
        yield from grid(folder)
        yield from workers(folder)
        yield from many_candidates(folder)
        yield from forest(folder)
        yield from persons(folder)
        yield from eight_at_once(folder)


def grid(folder: Path) -> Iterator[Row]:
    """A grid of 64 over two million records, beside the loop on one core and split over two."""
    training, parts = written(folder / "grid", 2_000_000, FEATURES, 8)
    command = partial(tune, training, LOGISTIC, log_space("lambda", 64))
    loop, plain, two, halves = rounds(
        partial(run_loop, "logistic", LAMBDAS, training, parts),
        command,
        partial(command, workers=2),
        partial(together, [partial(run_loop, "logistic", LAMBDAS, training, parts[i::2]) for i in (0, 1)]),
    )
    on = "grid of 64, 2,000,000 × 30, eight files"
    yield spread_row(f"{on}: of the loop", ratio(processor(plain), processor(loop)), at_most=1.3)
    yield spread_row(f"{on}: the command, by the clock", Spread.of(wall(plain)), unit="s")
    yield spread_row(f"{on}: the loop, by the clock", Spread.of(wall(loop)), unit="s")
    yield spread_row(f"{on}: the loop, of two plain processes, by the clock", ratio(wall(loop), wall(halves)))
    yield spread_row(f"{on}: of `workers = 2`, by the clock", ratio(wall(plain), wall(two)), at_least=0.97)


def workers(folder: Path) -> Iterator[Row]:
    """The same grid where scoring takes longer than a command's start."""
    training, _ = written(folder / "workers", 20_000_000, FEATURES, 80)
    command = partial(tune, training, LOGISTIC, log_space("lambda", 64))
    plain, two = rounds(command, partial(command, workers=2))
    on = "grid of 64, 20,000,000 × 30, 80 files"
    yield spread_row(f"{on}: of `workers = 2`, by the clock", ratio(wall(plain), wall(two)), at_least=1.4)
    yield spread_row(f"{on}: `workers = 2`, by the clock", Spread.of(wall(two)), unit="s")


def many_candidates(folder: Path) -> Iterator[Row]:
    """What a candidate above 64 costs, and 1,024."""
    training, _ = written(folder / "many", 250_000, 10, 1)
    few, many, two = rounds(
        *(partial(tune, training, LOGISTIC, log_space("lambda", count)) for count in (64, 1024)),
        partial(tune, training, LOGISTIC, log_space("lambda", 64), workers=2),
    )
    on = "250,000 × 10, one file"
    each = [1000.0 * (b - a) / 960 for a, b in zip(processor(few), processor(many), strict=True)]
    yield spread_row(f"{on}: a candidate above 64", Spread.of(each), unit="ms", at_most=12.0)
    yield spread_row(f"{on}: 1,024 candidates", Spread.of(processor(many)), unit="s", at_most=15.0)
    yield spread_row(f"{on}: 1,024 candidates, by the clock", Spread.of(wall(many)), unit="s")
    yield spread_row(f"{on}: 64 candidates", Spread.of(processor(few)), unit="s")
    short = ratio(wall(few), wall(two))
    yield spread_row(f"{on}: 64 candidates, of `workers = 2`, by the clock", short, at_least=0.97)


def forest(folder: Path) -> Iterator[Row]:
    """Four depths of a forest of 50 trees, and the command's least: four logistic models on 2,000 rows."""
    training, parts = written(folder / "forest", 300_000, FEATURES, 2)
    small, _ = written(folder / "small", 2_000, FEATURES, 1)
    forests = partial(tune, training, FOREST, "max_depth = { values = [2, 4, 6, 8] }")
    logistic = partial(tune, small, LOGISTIC, log_space("lambda", 4))
    loop, whole, least, whole_direct, least_direct = rounds(
        partial(run_loop, "forest", "2,4,6,8", training, parts),
        forests,
        logistic,
        partial(forests, "--direct"),
        partial(logistic, "--direct"),
    )
    on = "forest of 50 trees, 4 depths, 300,000 × 30"
    yield spread_row(f"{on}: of the loop", ratio(processor(whole), processor(loop)))
    for how, taken, floor in (("", whole, least), (", both `--direct`", whole_direct, least_direct)):
        beyond = [a - b for a, b in zip(processor(taken), processor(floor), strict=True)]
        what = f"{on}: beyond the least of a command{how}, of the loop"
        yield spread_row(what, ratio(beyond, processor(loop)), at_most=1.2)
    yield spread_row("the least: 4 logistic models on 2,000 rows", Spread.of(processor(least)), unit="s")
    yield spread_row(f"{on}: the loop", Spread.of(processor(loop)), unit="s")


def persons(folder: Path) -> Iterator[Row]:
    """The largest process of a command that counts 200,000 persons of five records once each."""
    training, _ = written(folder / "persons", 1_000_000, 10, 8, persons=200_000)
    sizes = [partial(tune, training, LOGISTIC, log_space("lambda", count), persons=200_000) for count in (64, 256)]
    for count, goal, taken in zip((64, 256), (0.75, 1.5), rounds(*sizes, count=1), strict=True):
        peak = max(one[2] for one in taken)
        yield Row(f"200,000 persons of 5 records, {count} candidates: peak", peak, unit="GB", at_most=goal)


def eight_at_once(folder: Path) -> Iterator[Row]:
    """Eight tunes of one ledger, at once and one after another: the seconds by the clock of each."""
    training, _ = written(folder / "eight", 20_000, 10, 1)
    eight = [partial(tune, training, LOGISTIC, log_space("lambda", 16)) for _ in range(TOGETHER)]
    one_by_one, at_once = [], []
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="dpbo-sequence-") as home:
            one_by_one.append(sum(one(home=Path(home), number=i)[0] for i, one in enumerate(eight)))
        with tempfile.TemporaryDirectory(prefix="dpbo-together-") as home:
            at_once.append(together([partial(one, home=Path(home), number=i) for i, one in enumerate(eight)])[0])
    yield spread_row("eight tunes at once, of one after another", ratio(at_once, one_by_one), at_most=0.9)


def rounds(*sides: Callable[[], Taken], count: int = ROUNDS) -> list[list[Taken]]:
    """What each side took in each round; each round begins with another side."""
    taken: list[list[Taken]] = [[] for _ in sides]
    for turn in range(count):
        for place in range(len(sides)):
            i = (place + turn) % len(sides)
            taken[i].append(sides[i]())
            print(f"{i}: {taken[i][-1]}", file=sys.stderr, flush=True)
    return taken


def wall(side: list[Taken]) -> list[float]:
    return [one[0] for one in side]


def processor(side: list[Taken]) -> list[float]:
    return [one[1] for one in side]


def values_of(models: int) -> str:
    """The values of C that a plain loop tries."""
    return ",".join(f"{c:.6g}" for c in np.geomspace(1e-2, 1e4, models))


LAMBDAS = values_of(64)


def log_space(name: str, points: int) -> str:
    return f"{name} = {{ low = 1e-4, high = 1.0, log = true, points = {points} }}"


def written(folder: Path, n: int, d: int, files: int, persons: int = 0) -> tuple[Path, list[str]]:
    """training.parquet, of 5,000 rows, and n records in files of one folder, in which persons come in any order.

    Another process writes them: a process that this one starts is said to be as large as this one ever was.
    """
    with ProcessPoolExecutor(1) as pool:
        pool.submit(write, folder, n, d, files, persons).result()
    return folder / "training.parquet", [str(path) for path in sorted((folder / "validation").iterdir())]


def write(folder: Path, n: int, d: int, files: int, persons: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, w = np.random.default_rng(0), np.linspace(-1.0, 1.0, d)
    people = rng.permutation(np.repeat(np.arange(persons), n // persons)) if persons else None
    (folder / "validation").mkdir(parents=True)
    for name, at, size in [("training", 0, 5_000)] + [
        (f"validation/{j:03d}", j * (n // files), n // files) for j in range(files)
    ]:
        X = rng.normal(size=(size, d))
        columns: dict[str, object] = {f"x{i}": X[:, i] for i in range(d)}
        columns["y"] = (X @ w + 3.0 * rng.normal(size=size) > 0.0).astype(np.int64)
        if people is not None:
            columns["person"] = people[at : at + size] if name != "training" else -1 - np.arange(size)
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def tune(
    training: Path,
    model: dict[str, str],
    space: str,
    *words: str,
    persons: int = 0,
    workers: int = 1,
    home: Path | None = None,
    number: int = 0,
    code: str = COMMAND,
    **settings: str,
) -> Taken:
    """One study over the folder beside the training file, in a new home unless one is given, by other `code`
    than the command's where given, with more environment variables."""
    import pyarrow.parquet as pq

    n = sum(pq.ParquetFile(path).metadata.num_rows for path in (training.parent / "validation").iterdir())
    counted = 'person = "person"' if persons else ""
    study = f"""
[study]
name = "timed-{number}"
method = "private_grid"
[privacy]
dataset = "records"
epsilon = 1.0
{counted}
[budget]
epsilon = 20.0
[data]
training = "{training}"
validation = "{training.parent / "validation"}"
target = "y"
workers = {workers}
{f"n_persons = {persons}" if persons else f"n_validation = {n}"}
[model]
{chr(10).join(f"{key} = {value}" for key, value in model.items())}
score = "accuracy"
[space]
{space}
"""
    with tempfile.TemporaryDirectory(prefix="dpbo-home-") as made:
        here = home or Path(made)
        folder = here / f"study-{number}"
        folder.mkdir()
        (folder / "study.toml").write_text(study, encoding="utf-8")
        around = {
            name: text for name, text in os.environ.items() if not name.startswith(("PREFECT_", "DPBO_", "MLFLOW_"))
        }
        around |= ({"DPBO_LEDGER": str(here / "ledger.db")} if home else {}) | settings
        return spent([sys.executable, "-c", code, "tune", "study.toml", "--anyway", *words], folder, around)


def run_loop(estimator: str, values: str, training: Path, parts: Sequence[str]) -> Taken:
    return spent(
        [sys.executable, "-c", LOOP, estimator, values, str(training), *parts], training.parent, dict(os.environ)
    )


def spent(command: list[str], folder: Path, around: dict[str, str]) -> Taken:
    """What a new process and all that it waited for took."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    around = around | one | {"PYTHONPATH": str(STUDY.parent.parent)}
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=around, stdout=output, stderr=subprocess.STDOUT, text=True
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(output.read())
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9


def together(runs: Sequence[Callable[[], Taken]]) -> Taken:
    """Several at once: the clock's seconds to the end of the last, all processors' seconds, the largest process."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(len(runs)) as pool:
        taken = list(pool.map(lambda run: run(), runs))
    return time.perf_counter() - begun, sum(one[1] for one in taken), max(one[2] for one in taken)


if __name__ == "__main__":
    main(rows)
