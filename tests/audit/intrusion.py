"""`make intruder`: every attack on what listens, on budgets and on what was paid for, and what came of each.

"Before" is what the same attacks came to when they were first made, before anything was done against them; every
other cell is measured by the run that writes the page.
"""

import sys

from of_features import merged, parts

from audit import accounts, paid, ways
from audit.verdict import line, table
from audit.ways import Way

WHO = ("second user", "reader with the link", "web page")
PATIENCE = 15.0  # seconds


def out_of(came: dict[str, bool]) -> str:
    """How many held, and which did not."""
    missing = [name for name, held in came.items() if not held]
    return f"{len(came) - len(missing)} of {len(came)}" + (f" (not: {', '.join(missing)})" if missing else "")


def main_table(tried: list[Way]) -> str:
    """The goals: attack, before, now, what shows it."""
    local = [way for way in tried if way.who in WHO and not way.skipped]
    through = [way for way in local if way.got]
    skipped = len([way for way in tried if way.skipped])
    renamed, operator = accounts.renaming(), next(way for way in tried if way.who == "operator")
    noticed = {name: came != "spent" for name, came in accounts.tampering().items()}
    waits = paid.waits()
    slowest = max(waits, key=lambda name: waits[name])
    beyond = f"; {skipped} not run" if skipped else ""
    rows = [
        ("local uid or web page runs code or reads the file (serve, ui, tune, docs)", "3 of 3 ways",
         f"{len(through)} of {len(local)} ways{beyond}", "the ways below, test_intruder.py, test_viewer.py"),
        ("ε from one file by renaming", "× 5, no limit", f"× {renamed.times:g}",
         f"{renamed.attempts} names, links and paths; test_policy.py"),
        ("operator (no Prefect password) reads a record", "yes", "yes" if operator.got else "no",
         f"{operator.tried} runs below, test_policy_runs.py"),
        ("paid release readable when MLflow, its experiment or the pictures fail", "0 of 2", out_of(paid.arrived()),
         "test_publishing.py, test_show.py"),
        ("tampering noticed before spending", "0 of 3", out_of(noticed),
         "triggers dropped, then the next spend; test_ledger_audit.py"),
        ("silent PostgreSQL: the longest wait for a message", "over 100 s", f"{waits[slowest]:.1f} s",
         f"{slowest}; test_ledger_silent.py"),
        *(attack(accounts.team) for attack in parts("intrusion_row")),
        ("outbound connections of a whole tune", "1", str(len(paid.outward())), "test_nothing_leaves.py"),
        ("a canary in a core, a pickle or a temporary copy", "2", str(len(paid.canaries())),
         "test_nothing_leaves.py, the leaks above"),
    ]  # fmt: skip
    lines = [line(*row) for row in rows]
    copied = (
        f"Out of scope, and so: the file *copied* under another name has a budget of its own (× "
        f"{renamed.with_a_copy:g}); who copies it can also read it."
    )
    return f"{table('attack | before | now | shown by', lines)}\n\n{copied}"


def text() -> str:
    """The section."""
    tried, planted = ways.campaign()
    tried += [accounts.operator(), accounts.restoring(), *(way() for way in merged("INTRUSIONS").values())]
    for way in tried:
        for what in way.got:  # for whoever mends it
            sys.stderr.write(f"{way.server}, {way.name}: {what}\n")
    head = "what listens | who | the way | tried | got in"
    return f"""Tried as another user of the machine (uid 65534, on the loopback, data files 0600), as somebody who
may start runs and lacks Prefect's password, and as web pages in a headless Chromium that opened the link. "Before"
is what these attacks came to when they were first made; all else is measured by each run.

{main_table(tried)}

Each way, how often it was tried, and how often it got anything but a refusal; every count must be zero.

{table(head, [ways.words(way) for way in tried])}

Planted faults; every row must find something. The same requests to servers that nothing stands in front of.

{table(head, [ways.words(way) for way in planted])}"""
