"""What the watch adds to the suites that test all kinds of private queries alike."""

from dataclasses import replace

from each_release import tuned_release

from dpbo.features.watch.flow import watch_privately
from dpbo.features.watch.looks import OpenLook, look_once, open_look
from dpbo.features.watch.schedule_flow import serve_watch, watch_on_schedule
from dpbo.flows.stores import Stores
from dpbo_core.study import WatchSection


def look_at(spec, ledger, folder):
    """The number of a first look at the study's model."""
    section = WatchSection(drop=0.2, epsilon=5.0)
    return look_once(
        spec, ledger=ledger, folder=folder, vaults=folder / "vaults", name="monday", section=section
    ).number


ASKED_OF_A_MODEL = {"watch": look_at}


def of_a_table(spec, table):
    """The flow of a look at another table than the study's own."""
    watch_privately.fn(spec, "today", wanted=WatchSection(drop=0.1, epsilon=0.5, table=table))


# What its own plan calls useless

USELESS_SECTIONS = {"watch": {"drop": 0.02, "epsilon": 1.0}}


def by_watch(spec, asked):
    opened = open_look(spec, asked, name="monday")
    if isinstance(opened, OpenLook):
        opened.finish(asked, Stores().vaults)


SPENDS = {by_watch: False}  # whether it is asked of a study that was never tuned


def serve(path, schedule):
    serve_watch(path, None, schedule)


def on_schedule():
    return {"watch": watch_on_schedule}


def alarm(place):
    """The release of a watch that ended with an alarm: every record has the other label."""
    _, spec, ledger = tuned_release(place)
    path = place / "validation.csv"
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *(f"{line[:-1]}{1 - int(line[-1])}" for line in lines)]) + "\n")
    section = WatchSection(drop=0.2, epsilon=50.0)
    look = look_once(spec, ledger=ledger, folder=place, vaults=place / "vaults", name="a", section=section)
    return look.release


RELEASES = {"watch": alarm}


# One way for every query


def watched(place, edition):
    section = WatchSection(drop=0.2, epsilon=1.0, edition=edition)
    look = look_once(
        place.spec,
        ledger=place.run.ledger,
        folder=place.run.folder,
        vaults=place.folder / "watches",
        name="monday",
        section=section,
    )
    return replace(look, replayed=False)


QUERIES = {"a watch": (watched, "clinic/watch")}


# The enumerator's doors


def doors():
    import watch_doors

    return watch_doors.doors()


def frozen(seen, noises):
    """What stands for a look's comparison: it writes its query down, and the score holds."""

    def holds(value, *, fall, **_):
        seen.drawn.append("a look")
        seen.queries.append((min(noises), False, (fall.of(int(value.expose())),)))
        return False

    return {"dpbo.features.watch.looks.alarm": holds}
