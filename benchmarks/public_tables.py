"""What `dpbo init` and `dpbo plan` make of other people's tables: every CSV file below a folder.

    python -m benchmarks.public_tables FOLDER

A file is packed or not (.csv, .csv.gz, .csv.bz2), of at least 60 lines and at most 6 MB. Its lines are divided in
turn into a public and a sensitive half, and its last column is the target. docs/tables/public_tables.txt has the
outcome for the tables that ten packages ship; a row says what was understood, or why the table was refused.
"""

import bz2
import gzip
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

DPBO = Path(sys.executable).with_name("dpbo")
OPENED = {".bz2": bz2.decompress, ".gz": gzip.decompress, ".csv": bytes}
MIN_LINES, MAX_BYTES = 60, 6_000_000


def tables(folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the name and the lines of every table below the folder."""
    for path in sorted(folder.rglob("*.csv*")):
        if path.suffix in OPENED and "tests" not in path.parts:
            lines = OPENED[path.suffix](path.read_bytes()).removesuffix(b"\n").split(b"\n")
            if len(lines) > MIN_LINES and sum(map(len, lines)) < MAX_BYTES:
                package = path.relative_to(folder).parts[0]
                yield f"{package} {path.name.partition('.')[0]}", lines


def target_of(header: bytes) -> str:
    """Return the name of a header's last column."""
    separator = max(",;\t", key=header.decode(errors="replace").count)
    return header.decode(errors="replace").strip().split(separator)[-1].strip().strip('"')


def run(folder: str, *words: str) -> tuple[int, str]:
    """Return the exit code of a command in a folder, and the first sentence of what it refused."""
    done = subprocess.run([DPBO, *words], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.removeprefix("dpbo: ").partition(". Usual cause")[0].strip()


def outcome(lines: list[bytes]) -> str:
    """Return in words what the two commands made of a table."""
    header, *rows = lines
    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("public.csv", rows[::2]), ("private.csv", rows[1::2])):
            (Path(folder) / name).write_bytes(b"\n".join([header, *part]) + b"\n")
        target = target_of(header)
        code, refused = run(folder, "init", "public.csv", "private.csv", "--target", target)
        if code:
            return f"init {code}: {refused}"
        study = tomllib.loads((Path(folder) / "study.toml").read_text(encoding="utf-8"))
        code, refused = run(folder, "plan", "study.toml")
        model, data = study["model"], study["data"]
        parts = [target, model["estimator"].rpartition(".")[2], model["score"]]
        parts += [f"without {', '.join(data['ignore'])}"] if data.get("ignore") else []
        parts += ["unlabelled public rows left out"] if data.get("missing_target") else []
        return "; ".join(parts) if code == 0 else f"plan {code}: {refused}"


def main() -> None:
    """Print a row for every table of the folder that is named."""
    for name, lines in tables(Path(sys.argv[1])):
        print(f"{name:<44} {len(lines) - 1:>6}  {outcome(lines)}", flush=True)


if __name__ == "__main__":
    main()
