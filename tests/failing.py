"""Run by the tests in a process of its own: what is reached after `reserve`, and what comes out when it fails.

    python -m failing FOLDER EVERY OFFSET    record every world; make every EVERY-th call fail, once for each kind

Prints JSON: calls and raises by function, the outcomes of failing calls by function, and what broke the rules.
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


CLOSING = ":os.close"  # what failed to close would hold its lock to the end of this process
# here nothing sensitive is in hand: the seal itself, and a clock beside it
BARE = ("privacy.sealing:", "study.run:padded")


def function_of(site):
    """module:function of a site module:function:call."""
    return ":".join(site.split(":")[:2])


def relax(connection):
    """Nothing here outlives the process: a commit is written, and not waited for."""
    connection.connection.dbapi_connection.execute("PRAGMA synchronous=OFF")


def main(folder, every, offset):
    """Record, then plant."""
    sa.event.listen(sa.Engine, "engine_connect", relax)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
    made, wrong, edition = worlds(here(folder)), [], 0
    reached, calls, entered, first, outcomes = {}, {}, set(), {}, {}
    for name, go in made.items():
        with probes.watching() as watch:
            found = outcome(go, "0")
        if found[0] != "release":
            wrong.append([name, "nothing planted", *found])
        reached[name] = watch.calls
        entered |= watch.entered
        for site in sorted(watch.calls):
            calls.setdefault(function_of(site), set()).add(site.split(":", 2)[2])
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
                found, about = outcome(made[name], str(edition))
                fired = watch.fired
            outcomes.setdefault(function_of(site), set()).add("as it is" if site.startswith(BARE) else found)
            if not fired or (found in ("told", "raw") and not site.startswith(BARE)):
                wrong.append([name, site, kind.__name__, found, about, fired])
            elif found != "release":  # a failure costs nothing more: asked again, the study is finished
                again, _ = outcome(made[name], str(edition))
                if again != "release":
                    wrong.append([name, site, kind.__name__, found, "not finished when asked again"])
    faulthandler.cancel_dump_traceback_later()
    raises = {place: probes.WATCH.raises[place] for place in entered if probes.WATCH.raises.get(place)}
    print(
        json.dumps(
            {
                "calls": {place: sorted(found) for place, found in sorted(calls.items())},
                "raises": dict(sorted(raises.items())),
                "outcomes": {place: sorted(found) for place, found in sorted(outcomes.items())},
                "wrong": wrong,
                "planted": edition,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
