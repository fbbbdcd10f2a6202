"""The observer's process: it becomes uid 65534, then looks until its standard input ends, and prints what it saw.

    python -m observer.second_user OURS ASKS TOP …

OURS are process numbers that are the harness's own; ASKS is 1 if ports are asked; each TOP is a folder.
"""

import encodings.idna  # noqa: F401  imported late it could not be read
import json
import os
import select
import sys
import time

from observer.files import Files
from observer.notes import Notes
from observer.processes import NETWORK, Processes
from observer.sockets import Sockets

NOBODY = 65534
OFTEN, SELDOM = 0.03, 0.5  # seconds between two looks for what is new, and at everything


def main(words: list[str]) -> None:
    ours, asks, tops = {int(pid) for pid in words[0].split(",")}, words[1] == "1", words[2:]
    os.chdir("/")
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    assert os.getuid() == os.geteuid() == NOBODY
    notes = Notes()
    files = Files(notes, tops)
    processes = Processes(notes, ours | {os.getpid()})
    sockets = Sockets(notes) if asks else None
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    looked = 0.0
    while not select.select([sys.stdin], [], [], OFTEN)[0]:
        files.events()
        processes.names()
        if time.monotonic() > looked + SELDOM:
            processes.look()
            if not asks:  # one who asks is counted too
                processes.machine()
            looked = time.monotonic()
    if sockets is not None:
        sockets.close()
    else:
        processes.machine()
    files.close()
    told = notes.plainly()
    if asks:
        told.pop(NETWORK, None)
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
