"""The deployment of docs/how_to/team.md, tried: its commands in order, real processes, what each can reach.

python -m deployment      (from tests/, as root, on Debian with the packages that the page names)
"""

import os
import sys
from pathlib import Path

from deployment import machine, nightly, rights
from deployment.people import may, shell, until
from deployment.told import blocks, check, failed, follow, install


def trial():
    """All of it, on the machine that `machine.build` made."""
    shell("ip link set lo up")
    _, started, study, daily, backup, restore = blocks()
    rights.secrets()
    follow(started)
    rights.servers()
    nightly.half_a_day_away()
    follow(study)
    said = shell("dpbo-as curator dpbo doctor", code=None)
    check("dpbo doctor finds nothing wrong", ", wrong" not in said and "✗" not in said, said)
    check("the first study is in the ledger", nightly.entries() == 1, nightly.entries())
    follow(daily)
    well = until(lambda: nightly.runs() == ["Completed"]) and nightly.entries() == 2
    check("the run that an operator started ends well", well, (nightly.runs(), nightly.entries()))
    rights.operator()
    rights.viewer()
    nightly.parts_restart()
    follow(backup)
    nightly.restores(restore)
    nightly.recovers(restore)
    for unit in reversed(nightly.UNITS):
        shell(f"systemctl stop {unit}")
    left = [unit for unit in nightly.UNITS if may("root", "systemctl", "is-active", unit)]
    check("everything stops", not left, left)


def verdict():
    """What is left to say; the exit code."""
    sys.stdout.write(f"{'FAILED: ' + '; '.join(failed) if failed else 'All of it holds.'}\n")
    return int(bool(failed))


def main(stage="begin"):
    """Each stage starts the next in narrower namespaces; the last one's verdict is the exit code."""
    if stage == "begin":
        if os.geteuid() != 0:
            raise SystemExit("make deployment makes accounts and services: run it as root")
        return machine.unshared("build", "--mount", "--propagation", "private")
    try:
        if stage == "build":
            machine.build()
            install(blocks()[0])
            return machine.unshared("trial", "--net", "--pid", "--mount-proc")
        trial()
    except AssertionError as stopped:
        check("the page's commands", holds=False, told=str(stopped))
        for log in sorted(Path("/run/units").glob("*.log")):
            sys.stdout.write(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}\n")
    return verdict()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
