"""The document of a look (private check) of a watch, and what its run in MLflow says of all its looks."""

from typing import TYPE_CHECKING

from dpbo.features.watch import KIND
from dpbo.tasks.reporting.document import Document, Fact, Note

if TYPE_CHECKING:
    from dpbo.features.watch.recorded_looks import Look

ALL_LOOKS_NOTE = " All looks together, up to and including the first alarm."


def look_document(look: "Look", *, budget: str, timeline: str) -> Document:
    """The document of a look: its result, its price, the `budget` that is left and where its `timeline` is."""
    fallen = f"the score has fallen by about {look.terms.drop:g}" if look.alarm else "no fall is seen"
    again = "; recorded before, and nothing was read now" if look.replayed else ""
    after = "this watch is over: tune again, or open another (a new edition in [watch])" if look.alarm else ""
    facts = {
        "looks": f"{look.number} up to this one; ε = {look.guarantee.epsilon:g} was spent once for all of them",
        "guarantee": look.guarantee.in_words() + ALL_LOOKS_NOTE,
        "budget": budget,
        "next": after,
        "timeline": timeline,
    }
    return Document(
        title=look.key.study,
        subtitle=f"{look.key.edition} · look {look.name}",
        answers=(Fact("score", f": {fallen}{again}", "ALARM" if look.alarm else "holds"),),
        facts=tuple(Fact(name, text) for name, text in facts.items() if text),
    )


def watch_document(look: "Look") -> Document:
    """Return what is watched and how its looks are read, whatever the results so far."""
    study, chart = look.key.study.removesuffix(f"/{KIND}"), "watch/alarm"
    watched = (
        f"Whether the score of the model that the study {study}, edition {look.key.edition}, released has fallen "
        f"by {look.terms.drop:g} or more, on records of the dataset {look.key.dataset}."
    )
    read = (
        f"The chart {chart} under Model metrics: a look a step, 0 for holds and 1 for the alarm, which ends it.",
        "An alarm may be a false one, and a fall may be seen late; dpbo watch --plan says how often.",
    )
    return Document(
        notes=(
            Note("What is watched", (watched,), strong=True),
            Note("What came out", read, strong=True),
            Note("The guarantee", (look.guarantee.in_words() + ALL_LOOKS_NOTE,), strong=True),
        )
    )
