"""Every library call that a study reaches after its charge, made to fail: a failure is an output.

    python -m failing FOLDER EVERY OFFSET    make every EVERY-th call fail: once for each kind if EVERY is 1

What may come out of a study then, and why no record brings it about, is said by room:

| outcome | meaning |
|---|---|
| release | a fixed output takes the place of what failed, and the study goes on |
| sealed | "a step on sensitive data failed", the same for all: no text, type, cause or context of it leaves |
| public message | a message about public facts: sizes of files, the ledger's place, a training on public rows |
| as it is | nothing sensitive is in hand there |

No δ is paid for a failure. Run by the tests in a process of its own; prints JSON: how many calls failed, and each
that broke its room's rule.
"""

import faulthandler
import json
import signal
import sys

import probes  # first: it compiles what the others import
import sqlalchemy as sa
from failure_rooms import allowed
from failure_worlds import here, worlds


def outcome(go, edition):
    """In a word what comes out of a study, and what is wrong with it."""
    from dpbo_core.errors import DpboError, Sealed, StudyInvalid

    try:
        go(edition)
    except BaseException as error:  # noqa: BLE001
        chained = error.__cause__ is not None or error.__context__ is not None or hasattr(error, "__notes__")
        texts = [str(error), repr(error), repr(vars(error))]
        if type(error) is StudyInvalid and not chained and any(words in error.what for words in OF_THE_PUBLIC):
            return "public message", ""
        if chained or any(probes.SECRET in text or "Planted" in text for text in texts):
            return "told", f"{type(error).__name__}: {str(error)[:60]}"
        if type(error) is Sealed:
            return "sealed", ""
        return ("public message", "") if isinstance(error, DpboError) else ("raw", type(error).__name__)
    return "release", ""


OF_THE_PUBLIC = ("could not be", "could be imported", "cannot be pickled")  # of public rows, an estimator, a score
CLOSING = ":os.close"  # what failed to close would hold its lock to the end of this process
ASKED = 20  # editions: which trial is taken, and so which candidate is trained, is the noise's word


def relax(connection):
    """Nothing here outlives the process: a commit is written, and not waited for."""
    connection.connection.dbapi_connection.execute("PRAGMA synchronous=OFF")


def main(folder, every, offset):
    """Record, then plant."""
    sa.event.listen(sa.Engine, "engine_connect", relax)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
    made, wrong, edition, planted = worlds(here(folder)), [], 0, 0
    reached, first = {}, {}
    for name, go in made.items():
        with probes.watching() as watch:
            result = outcome(go, "0")
        if result[0] != "release":
            wrong.append([name, "nothing planted", *result])
        reached[name] = watch.calls
        for site in watch.calls:
            first.setdefault(site, []).append(name)
    for number, site in enumerate(sorted(first)):
        if number % every != offset or site.endswith(CLOSING):
            continue
        for kind in probes.KINDS if every == 1 else probes.KINDS[(number // every) % len(probes.KINDS) :][:1]:
            print(site, kind.__name__, file=sys.stderr)
            name = min(first[site], key=lambda world: (len(reached[world]), world))
            for _ in range(ASKED):
                edition += 1
                faulthandler.dump_traceback_later(60.0, exit=True)  # a study that waits for ever is a failure too
                with probes.watching(site, kind) as watch:
                    result, about = outcome(made[name], str(edition))
                    fired = watch.fired
                if fired:
                    break
            planted += fired
            bare = "as it is" in allowed(site)
            if not fired or (result not in allowed(site) and not bare):
                wrong.append([name, site, kind.__name__, result, about, fired])
            elif result != "release":  # a failure costs nothing more: asked again, the study is finished
                again, _ = outcome(made[name], str(edition))
                if again != "release":
                    wrong.append([name, site, kind.__name__, result, "not finished when asked again"])
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"wrong": wrong, "planted": planted}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
