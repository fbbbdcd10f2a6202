"""The table of docs/failures.md: what is raised after the charge, by function, and why it says nothing of a record.

cd tests && python -m failure_table        makes every call fail and writes the page (some minutes)
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "failures.md"
NUMBERS = "a function of the plan's own numbers, which ran on the same numbers before the charge"
REASONS = {  # by module; the longest name that fits counts
    "accounting": (
        "the ledger's own rows, the database and the disk: the record is the same integers and texts whatever"
        " was drawn. What fails before the commit was never drawn for anybody, and the study is continued"
    ),
    "study.precomputed": "public models, made before the charge",
    "atomically": "the disk: what is written is as long whatever it holds",
    "bo": (
        "arithmetic on arrays of public sizes, on what was released already or, on a private path, inside the seal"
    ),
    "bo.adaptive_sampling": (
        "a density that cannot be computed is the prior: any density in the box is as private as any other, "
        "so it costs no δ. Weights lie in the box by construction, with a slack of 0"
    ),
    "data": (
        "readers are total: a record that cannot be read is the constant of its score. What is raised is "
        "about the file, a public fact (its presence, its header, its number of records) that was checked "
        "before the charge"
    ),
    "sklearn_api.public_encoder": "the public half",
    "evaluation": (
        "a record's cell is a comparison of its own decision value with public edges; what is made of a draw is "
        "arithmetic on what was released, of public size, and is made again from the recorded draw"
    ),
    "evaluation.watch": (
        "a look's bit is a comparison of whole numbers of public range; sizes, terms and the table's header were "
        "checked before the charge, and what fails leaves the noise as it was drawn"
    ),
    "gp": (
        "arrays of public sizes and pivots of at least σ > 0. In dp_hypo what cannot be learned from is "
        "forgotten, and the density is as it was: no δ"
    ),
    "study.data_split": "files and sizes, as checked before the charge; records are behind total readers",
    "study.training_set": "files and sizes, as checked before the charge; records are behind total readers",
    "sklearn_api.predictions_in_memory": (
        "a function of predictions is asked inside the seal: what it cannot predict scores the constant"
    ),
    "sklearn_api.tables_in_memory": "a person that cannot be read is nobody",
    "mechanisms": (
        "every kind of draw of the plan was made before the charge by a source that draws nothing "
        "(`try_out`): what is left is memory. Sums are integers in range by construction"
    ),
    "mechanisms.noise_vault": (
        "the disk and memory: what is written is noise, drawn before the table is read, and the bit"
    ),
    "mechanisms.random_stopping": (
        "K's law can be drawn or the study is refused when planned: nothing is cut off, and K is within 2⁻²²⁹"
        " of its law whatever the data"
    ),
    "mechanisms.repeat_and_select": "its price was compared with the plan's before the charge",
    "mechanisms.vectors": (
        "every noise of every point of Λ was made and priced before the charge; within a trial a failure is "
        "the worst trial, and counts"
    ),
    "methods": (
        "arithmetic on integer sums of public range; which of them are asked for is public, or inside the seal"
    ),
    "methods.hypo_search": (
        "a trial that fails is the worst trial, and counts, and all trials failing is the fixed default; no "
        "built-in training fails on any record, and a training function of the user's states its failures too"
    ),
    "methods.outsourced": (
        "rows are read by total readers and put on an integer grid; files and keys are the curator's own, the"
        " same whatever the rows"
    ),
    "models": "public rows and public models: a model's training is a function of λ and the public set",
    "models.containment": "what is replaced belongs to the process, not to a record",
    "models.estimators": (
        "a prediction that fails costs its own record alone, the constant 0. A training that fails is a "
        "function of λ and the public rows: on a public path its words are shown, of an estimator that nobody"
        " vouches for a fixed message; on a private path all are trained before the charge"
    ),
    "models.linear": (
        "margins are sums of numbers, without exceptions, of a size that is public; training is certified on "
        "public rows, on a private path before the charge"
    ),
    "models.linear.losses": "array arithmetic without exceptions, of public sizes",
    "models.scores.record": "whatever a score function does with a record, that record scores 0",
    "models.scores": "NaN scores the constant, everything else is clipped: no number fails",
    "models.linear.tilted": (
        "a singular system falls to a descent that holds its guarantee for every data set; λ that doubles "
        "cannot solve is refused when planned, at the study's n and d"
    ),
    "objective": "sums of integers; a broken record scores the constant",
    "objective.persons": (
        "sums and quotients of integers, in arrays as long as there are persons: memory, as for reading; a record "
        "without a person is left out"
    ),
    "models.by_content": "copies of rows, hashed: no content fails, and what a model refuses scores 0",
    "objective.partitioned": (
        "a part that is lost is its file's fault, and its records' content cannot lose it: readers are total"
    ),
    "privacy": NUMBERS,
    "privacy.sealing": "the seal itself: what fails here held nothing yet, or nothing any more",
    "private_training": (
        "every point of Λ was checked at the study's sizes before the charge (`check`); a failure would be "
        "the worst trial, and count"
    ),
    "problem": NUMBERS,
    "space": NUMBERS,
    "spec": NUMBERS,
    "study": "the clock, and public choices",
    "theorems": NUMBERS,
    "versions": "read once, before the charge",
}
HEAD = """# What a failure may say

Once a study is charged, a failure is an output: whoever learns that it failed, or how, learns what made it
fail. So everything that can be raised between the charge and the recording of the release is listed here, with
what comes out instead, and why that does not depend on a record. MATH §6.9.

The list is found by running. Every kind of study is run with a probe at every call of the package; each call
into a library (and into Python's own) that is reached is then made to raise an error, a panic, an interrupt and
an exit, and what comes out of the study is looked at. A test records the calls and raises again and fails when
one of them is not in this table, or one of the table is gone. Written by `cd tests && python -m failure_table`.

| what comes out | meaning |
|---|---|
| release | a fixed output takes the place of what failed, and the study goes on |
| sealed | "a step on sensitive data failed", the same for all: no text, type, cause or context of it leaves |
| public message | a message about public facts: sizes of files, the ledger's place, a training on public rows |
| as it is | nothing sensitive is in hand there |

That a sealed study failed is visible. Each row says why no record can bring that about; what is left is memory,
disk, database and a library that breaks, and a study that failed so is continued for nothing when it is asked
for again. **No δ is paid anywhere**: no row needs one. Two numbers are stated: the densities of `dp_hypo` keep
their bounds with a slack of exactly 0, and its number of trials is within 2⁻²²⁹ of its law in total variation
(the generator of noise of objective perturbation passes the length that its tolerance allows for with
probability 2⁻¹²⁸; beyond, the descent's steps alone hold the tolerance).

The operator's own interrupt (Ctrl-C) stops a study, and is told from an interrupt that a record or an estimator
raises by its signal. Closing a file is the one call that is not made to fail.
"""


def reason(place):
    """Why what `place` raises says nothing of a record.

    Raises:
        KeyError: nobody said so yet.
    """
    name = place.partition(":")[0]
    while name:
        if name in REASONS:
            return REASONS[name]
        name = name.rpartition(".")[0]
    raise KeyError(place)


def section(place):
    """The module of REASONS that a place falls under."""
    name = place.partition(":")[0]
    while name not in REASONS:
        name = name.rpartition(".")[0]
    return name


def rows(seen):
    """(function, calls, raises, outcomes) of everything that was reached."""
    for place in sorted(set(seen["calls"]) | set(seen["raises"])):
        calls, raises = seen["calls"].get(place, []), seen["raises"].get(place, [])
        reason(place)
        yield place, cell(calls), cell(raises), ", ".join(seen["outcomes"].get(place, []))


def cell(names):
    """Names as one cell of a table."""
    return ", ".join(f"`{name.replace('|', '¦')}`" for name in names)


def page(seen):
    """The page."""
    lines, last = [HEAD], None
    for place, calls, raises, outcomes in sorted(rows(seen), key=lambda row: (section(row[0]), row[0])):
        if section(place) != last:
            last = section(place)
            lines += [f"\n## {last}\n", f"{REASONS[last]}.\n"]
            lines += ["| function | library calls | its own raises | what comes out |", "|---|---|---|---|"]
        lines.append(f"| `{place}` | {calls} | {raises} | {outcomes} |")
    return "\n".join(lines) + "\n"


def read():
    """function → (calls, raises, outcomes) as the page has them."""
    found = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `"):
            place, calls, raises, outcomes = (part.strip() for part in line.strip("|").split(" | "))
            found[place.strip("` ")] = (calls, raises, outcomes.strip(" |"))
    return found


def differences(written, seen):
    """What the page says otherwise than what was seen, one line each."""
    said = []
    now = {place: (calls, raises) for place, calls, raises, _ in rows(seen)}
    for place in sorted(set(now) | set(written)):
        before, after = written.get(place, ("", "", ""))[:2], now.get(place, ("", ""))
        for name, one, other in zip(("calls", "raises"), before, after, strict=True):
            old, new = (set(filter(None, text.split(", "))) for text in (one, other))
            said += [f"{place}: {name} {item}, not in the table" for item in sorted(new - old)]
            said += [f"{place}: {name} {item}, in the table alone" for item in sorted(old - new)]
    for place, outcomes in seen["outcomes"].items():
        known = written.get(place, ("", "", ""))[2].split(", ")
        said += [f"{place}: comes out as {item}" for item in outcomes if item not in known]
    return said


def main():
    """Write the page."""
    import json

    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "failing.py", f"{folder}/here", "1", "0"],
            stdout=subprocess.PIPE,
            check=True,
        )
    seen = json.loads(ran.stdout.splitlines()[-1])
    for wrong in seen["wrong"]:
        print(*wrong)
    PAGE.write_text(page(seen))


if __name__ == "__main__":
    main()
