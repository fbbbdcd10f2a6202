"""`make audit`: the campaigns in full, their figures to docs/tables/audit.txt, section by section.

python -m audit [--short] [SECTION …]        (from tests/; all sections if none is named)

A section that runs replaces its own text in the page and leaves the others as they were. It exits 1 if a row is not
what it must be. The observer takes half an hour.
"""

import os
import platform
import sys
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from observer import campaign, compare
from of_features import merged, parts

from audit import bounds, cells, distinguish, fuzz, rows, verdict

PAGE = Path(__file__).parents[2] / "docs" / "tables" / "audit.txt"
VERSION = tomllib.loads((PAGE.parents[2] / "pyproject.toml").read_text())["project"]["version"]


def kills(*, short: bool) -> str:
    text = f"""Studies killed by SIGKILL at random moments and run again until they finished, all methods
in turn; every count but the first two must be zero.

{rows.kill_table(6 if short else 60)}

Spends of other tools (`Budget.spending`), killed before every statement and commit in turn, and asked again; the
last three counts must be zero.

{rows.spend_table(6 if short else 200)}"""
    return "\n\n".join([text, *(more(short=short) for more in parts("kills"))])


def replays(*, short: bool) -> str:
    return f"""Each method on neighbouring files, its mechanisms' outputs frozen to the same values:
control flow, draws and words must be the same, and no query may move by more than its
declared sensitivity (a share of 1). A method that draws models or tables, and not scores,
has tests of its own, in every `make test`.

{rows.replay_table(*((5, 3) if short else (400, 150)))}"""


def neighbours(*, short: bool) -> str:
    share = 0.02 if short else 1.0
    return f"""Every method whole, with the operating system's noise, many times on each of two neighbouring tables
of exact sums: the pair that loses most of all that are known (`tests/audit/worst*.py` say why), and the likelihood
ratio of the whole transcript. "ε of the pair" is what the pair loses at δ, computed from the mechanisms' own
probabilities; "ε proved" is what the runs prove, by Clopper and Pearson's bounds at {bounds.LEVEL:g} each: at δ = 0
on an event chosen on a fifth of the runs and tested on the others, for Gaussian noise by way of μ (Nasr et al.,
2023). Some honest row is found above its guarantee with probability at most {bounds.ALL_ROWS:g}. Every row must
stay under its guarantee and prove at least {distinguish.SEEN:g} of it. The noise cannot be seeded.

{rows.distinguish_table(share, faulty=False)}

Where the pair itself stays below its ε: the price of Gaussian noise is zero-concentrated privacy's, about a tenth
above what the noise loses; the worst pair of `noisy_gp` reaches one of its two caps, and not wholly the other; and
the best of K trials loses 2 + η times what a trial does only as E[K] grows without bound (for densities that adapt,
no exact loss is known).

Planted faults; every row must be above its guarantee. First the same pairs with every noise scale divided by
{distinguish.WEAKER:g} at the mechanism, then faults of other kinds, whose own loss is not computed.

{rows.distinguish_table(share, faulty=True)}"""


def enumeration(*, short: bool) -> str:
    return f"""Every public door on tables of 0 to 3 records and 0 to 2 persons, in every library and form of file,
for the owner and for what Prefect starts; one cell, or one person, is anything: values of every type and every
missing marker, in a feature, in the target and in the person's key. What the mechanisms give is frozen. Of every
pair of neighbours the exception and its message, the ledger's entries, what is said, the releases, the files and
their sizes must be the same, and no query may move by more than its sensitivity. A door of no release refuses all
worlds alike. In the rows "a cell" and "a label" one sensitive cell is of every kind that its container can hold at
all (of {cells.N_KINDS} kinds; fewer for the whole doors), in a feature or in the target.

{rows.door_table(5 if short else 10_000)}"""


def estimators(*, short: bool) -> str:
    return f"""Every class on the list of those that need no assumption, fitted, on pairs of neighbouring tables
of 2, 12 and 70 records: the row put in holds values of public rows, values that none holds, the constants that the
estimator was told of, and the ends of double precision. "Moved" counts the pairs in which another record's score
changed, by its last bit even; it must be zero.

{rows.estimator_table(20 if short else 6_000)}

Planted faults; every row must find something.

{rows.planted_estimator_table(200 if short else 1_000)}"""


def inputs(*, short: bool) -> str:
    return f"""Mutated files, messages, names and words wherever dpbo takes any (seed {fuzz.SEED}); the last five
counts must be zero. A stack trace is anything raised but a message, a hang takes over
{fuzz.LONGEST} s of the processor, and a charge is one that a refusal left behind.

{rows.fuzz_table(0.005 if short else 1.0)}"""


def leaks(*, short: bool) -> str:
    return f"""A planted feature, its standardised value, a planted label and the exact score of every
candidate, searched in every byte under Prefect's home, `mlruns/`, the temporary folder,
both streams and every cell of the ledger: as text at several precisions, as bytes of
double and single floats both ways round, in base64 and hex, inside gzip, zlib, bz2, xz
and zip data wherever it begins, in Parquet columns and in pickles.

{rows.leak_table()}

Flows made to leak an exact score, one for each place; every row must find something.

{rows.planted_table()}"""


def observer(*, short: bool) -> str:
    reasons = "\n".join(f"* {channel}, `{key}`: {why}." for channel, key, why in compare.COUNTED)
    return f"""Another user of the machine (uid 65534) writes down everything that he can see while a study runs,
on validation files that differ in one person's 16 records (other scores, or no numbers in them), in namespaces of
its own; every mechanism gives the outputs that it gave on the first, and `dp_hypo` makes 2 trials or
{campaign.MANY}. The first two files are watched by one who asks every port, and a server lives until all its
pages were asked for; the third, and every further run, by one who counts bytes and asks nothing. Watched are
ports and all that they answer, the kernel's counters, every file of `/proc` that opens, every folder that can be
listed (with the kernel's own events), both streams, and, as those see them who may read them, Prefect's and
MLflow's databases and files, the ledger's rows and what an exchange publishes. "Items" must be the same in all
runs: "differences" counts those that are not, and must be zero. What is random and public (ids, times, ports) is
replaced. "Minutes" are of these runs.

{campaign.table(short=short)}

What varies between runs on one file is on a list, and compared by a permutation test over all of it together where
the way is run {campaign.REPEATED["plain"]} times on each of two files (false alarm with probability at most
{campaign.LEVEL:.2g} each); empty where it is not: a study through Prefect takes too long.

{reasons}

Flows made to leak an exact score, one for each place; every row must find something.

{campaign.planted_table(short=short)}"""


def timing(*, short: bool) -> str:
    return f"""Rank correlation of a step's duration with a private quantity of that step, over runs on
different validation sets, within steps of one number and, but for λ, within one candidate;
models were trained beforehand. No correlation is not a proof; where there is one, it is the time
that the search takes over what it was told (in a trajectory that is released).

{rows.timing_table(3 if short else 300)}"""


def intrusion(*, short: bool) -> str:
    del short  # there is no shorter form: each way is tried once
    from audit.intrusion import text

    return text()


SECTIONS: dict[str, tuple[str, Callable[..., str]]] = {
    "timing": ("Timing", timing),  # first, and alone on the machine
    "replays": ("Record and replay", replays),
    "neighbours": ("Telling neighbours apart", neighbours),
    "enumeration": ("Every door on every small table", enumeration),
    "estimators": ("Estimators on the list", estimators),
    "inputs": ("Hostile input", inputs),
    "kills": ("Kills", kills),
    "leaks": ("Leaks", leaks),
    **merged("audit_sections"),
    "intrusion": ("Intruders", intrusion),
    "observer": ("What an observer sees", observer),
}


def parsed(page: str) -> dict[str, str]:
    """The sections of a page by their titles."""
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in f"\n{page}".split("\n## ")[1:]}


def whole(sections: dict[str, str]) -> str:
    """The page, its sections in their order; those that no longer exist are dropped."""
    titles = [title for title, _ in SECTIONS.values() if title in sections]
    return "\n".join(f"## {title}\n\n{sections[title]}\n" for title in titles)


def main(words: list[str]) -> None:
    short, wanted = "--short" in words, [word for word in words if word != "--short"] or list(SECTIONS)
    unknown = set(wanted) - set(SECTIONS)
    if unknown:
        sys.exit(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    wrong = []
    for name in wanted:
        (title, write), begun = SECTIONS[name], time.monotonic()
        body = write(short=short)
        minutes = (time.monotonic() - begun) / 60.0
        wrong += [f"{title}: {' | '.join(row)}" for row in verdict.broken(name, body)]
        body += (
            f"\n\n*{datetime.now(UTC):%Y-%m-%d}, {minutes:.1f} minutes; Python {platform.python_version()}, "
            f"dpbo {VERSION}, {os.cpu_count()} cores.*"
        )
        if short:
            sys.stdout.write(f"## {title}\n\n{body}\n\n")
        else:  # at once, so that a later section that fails loses nothing
            PAGE.write_text(whole(parsed(PAGE.read_text()) | {title: body}))
    if wrong and not short:  # a short form has too few runs to catch every planted fault
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
