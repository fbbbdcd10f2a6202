"""The doors of the enumerator that look at a released model: a study, its evaluation, and looks of a watch."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from audit.doors import A, Y, asked_by_file, counted, flat, in_places, persons
from audit.enumerator import Door, Place, World

from dpbo.features.watch.looks import OpenLook, open_look
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.sources import file_source
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.query import QueryContext

LINEAR: dict[str, Any] = {
    "model": {"estimator": "logistic", "score": "sigmoid"},
    "space": {"lambda": {"low": 0.1, "high": 1.0, "log": True, "points": 2}},
}
SECTION = WatchSection(drop=0.5, epsilon=2.0, reference=0.5, least_records=None)


def look_today(place: Place, world: World, spec: StudySpec, run: QueryContext, *_: Any) -> dict[str, str]:
    """A look at the table of the study itself."""
    return dict([_looked(place, spec, run, "today", SECTION)])


def look_twice(
    place: Place, world: World, spec: StudySpec, run: QueryContext, validation: str, n_persons: int | None
) -> dict[str, str]:
    """Two looks at a pool of two tables; everybody is in each day's table."""
    folder, suffix = run.folder, Path(validation).suffix
    least = n_persons or 2 * len(flat(world))
    section = SECTION.replace(table=f"day-{{date}}{suffix}", pool=2, least_records=least)
    place.ledger.allow("clinic", file_source(folder / section.table))
    shown = {}
    for name, days in {"2020-01-02": ("2020-01-01", "2020-01-02"), "2020-01-03": ("2020-01-03",)}.items():
        for day in days:
            shutil.copy(folder / validation, folder / f"day-{day}{suffix}")
        shown |= dict([_looked(place, spec, run, name, section)])
    return shown


def _looked(place: Place, spec: StudySpec, run: QueryContext, name: str, section: WatchSection) -> tuple[str, str]:
    """What one look shows."""
    vaults = place.folder / "vaults"
    opened = open_look(spec, run, name=name, section=section, vaults=vaults)
    look = opened.finish(run, vaults) if isinstance(opened, OpenLook) else opened
    return f"look {name}", repr((look.name, look.number, look.alarm))


def doors() -> Iterator[Door]:
    """All of them, for the owner and for what Prefect starts."""
    people = persons()
    for form in ("CSV", "Parquet", "folder"):
        for caller in Caller:
            who, asked = (
                f"{form}, {caller.value}",
                partial(asked_by_file, form=form, caller=caller, then=look_today),
            )
            yield Door("study, evaluation and watch", who, partial(asked, **LINEAR), counted((2, 3), (A, Y)))
            means = partial(asked, n_persons=2, privacy={"person": "who"})
            yield Door("study, evaluation and watch, persons' means", who, means, people)
        if form == "folder":
            continue
        pooled = partial(asked_by_file, form=form, then=look_twice)
        yield Door("study, evaluation and pooled watch", form, pooled, counted((2, 3), (A, Y)))
        pairs = partial(pooled, model={"score": "roc_auc"})
        yield Door("study, evaluation and pooled watch, AUC", form, pairs, counted((3,), (A, Y)))
        kept = partial(pooled, privacy={"person": "who", "max_records_per_person": 2})
        yield Door("study, evaluation and pooled watch, persons", form, kept, in_places())
        means = partial(pooled, n_persons=2, privacy={"person": "who"})
        yield Door("study, evaluation and pooled watch, persons' means", form, means, people)
