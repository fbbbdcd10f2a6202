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
from failure_worlds import here, worlds


def outcome(go, edition):
    """In a word what comes out of a study, and what is wrong with it."""
    from dpbo_core.errors import DpboError, Sealed, StudyInvalid

    try:
        go(edition)
    except BaseException as error:  # noqa: BLE001
        chained = error.__cause__ is not None or error.__context__ is not None or hasattr(error, "__notes__")
        texts = [str(error), repr(error), repr(vars(error))]
        if type(error) is StudyInvalid and "could not be" in error.what and not chained:
            return "public message", ""  # a public training's own words
        if chained or any(probes.SECRET in text or "Planted" in text for text in texts):
            return "told", f"{type(error).__name__}: {str(error)[:60]}"
        if type(error) is Sealed:
            return "sealed", ""
        return ("public message", "") if isinstance(error, DpboError) else ("raw", type(error).__name__)
    return "release", ""


SEALED, RELEASE, PUBLIC = ("sealed",), ("release", "sealed"), ("public message", "release", "sealed")
NUMBERS = "a function of the plan's own numbers, which ran on the same numbers before the charge"
ROOMS = {  # by module, the longest name that fits: (what may come out, why no record brings it about)
    "accounting": (SEALED, "the ledger's rows, the database, the disk: as long whatever was drawn"),
    "privacy.atomically": (SEALED, "the disk: what is written is as long whatever it holds"),
    "bo": (SEALED, "arithmetic on arrays of public sizes"),
    "bo.adaptive_sampling": (
        ("release",), "a density that cannot be computed is the prior: any density in the box is as private"
    ),
    "data": (RELEASE, "readers are total; what is raised is about the file, checked before the charge"),
    "queries": (SEALED, "comparisons with public edges, and arithmetic on what was released, of public size"),
    "gp": (SEALED, "arrays of public sizes and pivots of at least σ > 0"),
    "ledger": (SEALED, "the ledger's rows, the database, the disk: as long whatever was drawn"),
    "mechanisms": (
        RELEASE, "every kind of draw was made before the charge by a source that draws nothing; a failing trial is "
        "the worst trial, and counts; K's law can be drawn or the study is refused when planned"
    ),
    "methods": (RELEASE, "arithmetic on integer sums of public range; a failing trial is the worst, and counts"),
    "models": (
        PUBLIC, "public rows and public models; a prediction that fails costs its own record alone, the constant"
    ),
    "scoring": (RELEASE, "sums of integers; a broken record scores the constant; a part is lost by its file"),
    "privacy": (SEALED, NUMBERS),
    "privacy.sealing": (("as it is",), "the seal itself: what fails here held nothing yet, or nothing any more"),
    "private_training": (RELEASE, "every point of Λ was checked at the study's sizes before the charge"),
    "problem": (SEALED, NUMBERS),
    "sklearn_api": (RELEASE, "the public half; what cannot be predicted scores the constant"),
    "space": (SEALED, NUMBERS),
    "study_file": (SEALED, NUMBERS),
    "preparation": (SEALED, "files and sizes, as checked before the charge; records are behind total readers"),
    "preparation.run:Run.padded": (("as it is",), "the clock"),
    "theorems": (RELEASE, NUMBERS),
}  # fmt: skip


def allowed(site):
    """What may come out of a failure at `site`, module:function:call; KeyError where nobody said it yet."""
    return ROOMS[max((name for name in ROOMS if site.startswith((f"{name}.", f"{name}:"))), key=len)][0]


CLOSING = ":os.close"  # what failed to close would hold its lock to the end of this process


def relax(connection):
    """Nothing here outlives the process: a commit is written, and not waited for."""
    connection.connection.dbapi_connection.execute("PRAGMA synchronous=OFF")


def main(folder, every, offset):
    """Record, then plant."""
    sa.event.listen(sa.Engine, "engine_connect", relax)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
    made, wrong, edition = worlds(here(folder)), [], 0
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
            edition += 1
            print(site, kind.__name__, file=sys.stderr)
            faulthandler.dump_traceback_later(60.0, exit=True)  # a study that waits for ever is a failure too
            name = min(first[site], key=lambda world: (len(reached[world]), world))
            with probes.watching(site, kind) as watch:
                result, about = outcome(made[name], str(edition))
                fired = watch.fired
            bare = "as it is" in allowed(site)
            if not fired or (result not in allowed(site) and not bare):
                wrong.append([name, site, kind.__name__, result, about, fired])
            elif result != "release":  # a failure costs nothing more: asked again, the study is finished
                again, _ = outcome(made[name], str(edition))
                if again != "release":
                    wrong.append([name, site, kind.__name__, result, "not finished when asked again"])
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"wrong": wrong, "planted": edition}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
