"""What the watch adds to the suites that test all kinds of private queries alike."""

from dataclasses import replace

from dpbo.features.watch.looks import OpenLook, look_once, open_look
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import file_source
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.tuning import run_study


def look_at(spec, ledger, folder):
    """The number of a first look at the study's model."""
    section = WatchSection(drop=0.2, epsilon=5.0)
    return look_once(
        spec, ledger=ledger, folder=folder, vaults=folder / "vaults", name="monday", section=section
    ).number


ASKED_OF_A_MODEL = {"watch": look_at}


def of_a_table(spec, table):
    """The flow of a look at another table than the study's own."""
    from dpbo.features.watch.flow import watch_privately

    watch_privately.fn(spec, "today", wanted=WatchSection(drop=0.1, epsilon=0.5, table=table))


# What its own plan calls useless

USELESS_SECTIONS = {"watch": {"drop": 0.02, "epsilon": 1.0}}


def by_watch(spec, asked):
    from dpbo.flows.stores import Stores

    opened = open_look(spec, asked, name="monday")
    if isinstance(opened, OpenLook):
        opened.finish(asked, Stores().vaults)


SPENDS = {by_watch: False}  # whether it is asked of a study that was never tuned


def serve(path, schedule):
    from dpbo.features.watch.schedule_flow import serve_watch

    serve_watch(path, None, schedule)


def on_schedule():
    from dpbo.features.watch.schedule_flow import watch_on_schedule

    return {"watch": watch_on_schedule}


def alarm(place):
    """The release of a watch that ended with an alarm: every record has the other label."""
    from each_release import tuned_release

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


# Library calls that are made to fail


def failing_queries(folder, ledger, first_rows):
    from failure_worlds import LOGISTIC, study

    del ledger, first_rows
    of_pairs = {"model": {"estimator": LOGISTIC, "score": "roc_auc"}, "space": {"C": {"values": [0.1]}}}
    made = {
        "watch": study(data={"validation": "parts"}),
        "watch, a pool": study(data={"validation": "day-2026-03-01.csv"}),
        "watch, pairs": study(**of_pairs),
    }
    return {name: _failing(folder, i, tables, "pool" in name) for i, (name, tables) in enumerate(made.items())}


def _failing(folder, place, tables, pooled):
    """A function of an edition that looks at a study's model; the study was charged and released before."""
    ledger = PrivacyLedger(f"sqlite:///{folder / f'ledger-watch-{place}.db'}")
    spec = StudySpec.from_dict(tables)
    run_study(spec, ledger=ledger, folder=folder)
    if pooled:
        ledger.allow("people", file_source(folder / "day-{date}.csv"))

    def go(edition):
        wanted = WatchSection(drop=1.0, epsilon=9.0, edition=edition, reference=0.0)  # from which nothing falls
        if pooled:
            wanted = wanted.replace(pool=3, table="day-{date}.csv", least_records=72)
        vaults = folder / f"watch-{place}"
        return look_once(spec, ledger=ledger, folder=folder, vaults=vaults, name="day", section=wanted)

    return go


FAILURE_ROOMS = {
    "features.watch": (("sealed",), "comparisons with public numbers, and arithmetic on what was released"),
}


COMMANDS_ON_A_STUDY = [
    ("watch", "study.toml", "--once", "--look", "today", "--drop", "0.1", "--epsilon", "1"),
    ("watch", "study.toml", "--plan", "--drop", "0.1", "--epsilon", "1"),
]
