"""A report of an evaluation: its figures with both intervals, its ROC curve, its groups, how to read them."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.screens.evaluated_kinds import kind_facts, print_kind
from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo_core.evaluation import AT_THRESHOLD
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import NeighboringRelation

if TYPE_CHECKING:
    from dpbo_core.evaluation.run import EvaluationPlan

TITLES = {"auc": "AUC", "f1": "F1"}  # by which people know them; other figures go by their names
HEADLINES = ("auc", "average_precision", *AT_THRESHOLD, "calibration_error")  # of a first screen
TOLD_ELSEWHERE = ("flagged_share",)
WIDTH, HEIGHT = 40, 6  # of the ROC curve, in characters
BESIDE = 15  # columns to its left
STEPS = " ▁▂▃▄▅▆▇█"
RATES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of false positives, where it is listened to
READING = (
    "noise: what the noise, whose law is known, leaves open of the figure of these very {counted}; sampling: what "
    "so many {counted}, if drawn independently, leave open of all such {counted}; nine times in ten each"
)
ONCE = (
    "each of {n:,} counts once, whatever number of records: of c records each weighs 1/c; who is not there counts "
    "as what cannot be read"
)


def print_figures(screen: Screen, release: Release) -> None:
    """The figures of the whole and, by group, their distance from all other records; nothing of another release."""
    metrics = release.value.get("metrics")
    if not isinstance(metrics, dict):
        return
    if "roc" not in release.value:
        print_kind(screen, release.value)
        return
    shown = [name for name in HEADLINES if name in metrics and name not in TOLD_ELSEWHERE]
    rows = [(TITLES.get(name, name.replace("_", " ")), *_figure(metrics[name])) for name in shown]
    screen.table(("figure", "value", "noise, 90%", "sampling, 90%"), rows, left=1)
    groups = release.value.get("groups") or {}
    if groups:
        screen.say()
        gaps = [
            (named(name), _number(told["records_share"]), _number(told["recall"]), *_figure(told["gaps"]["recall"]))
            for name, told in groups.items()
        ]
        header = ("group", "of all", "recall", "from the others", "noise, 90%", "sampling, 90%")
        screen.table(header, gaps, left=1)
    screen.say()


def report_facts(
    release: Release, screen: Screen, best: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """The ROC curve, the threshold, how to read the figures; nothing of another release."""
    value = release.value
    if "roc" in value:
        yield "ROC", _roc(screen, value["roc"])
    if "metrics" in value and "roc" not in value:
        yield from kind_facts(value)
    if "roc" in value and "table" in value:
        yield "threshold", _threshold(value, _counted(release))
    if best is not None:
        yield "best", _best(best, _counted(release))
    if "metrics" in value:
        if "n_persons" in release.facts:
            yield "persons", ONCE.format(n=release.facts["n_persons"])
        yield "intervals", READING.format(counted=_counted(release))
    if "optimism" in release.facts:
        yield "optimism", named(release.facts["optimism"])


def print_expected(plan: "EvaluationPlan") -> None:
    """What `dpbo evaluate --plan` says: the price, what to expect of it, and whether it is worth it."""
    screen, expected = Screen(), plan.expected
    by_person = plan.price.guarantee.relation is NeighboringRelation.REPLACE_ONE_PERSON
    (spend,) = plan.price.spends
    screen.say("Nothing was charged, and no sensitive record was read.\n")
    screen.facts(
        [
            ("verdict", f"[bold]{expected.verdict}[/]: {named(expected.why)}"),
            ("guarantee", named(plan.price.guarantee.in_words())),
            (
                "noise",
                f"1 draw; {named(spend.mechanism)}, scale {spend.noise_scale:.3g} in each cell, in "
                + ("persons" if by_person else "records"),
            ),
            ("cells", f"{expected.n_cells}{_bins(expected.edges)}, from public facts"),
        ]
    )


def expected_json(plan: "EvaluationPlan") -> dict[str, Any]:
    """The object of `dpbo evaluate --plan --json`."""
    expected = plan.expected
    return {
        "guarantee": plan.price.guarantee.to_json(),
        "spends": [spend.to_json() for spend in plan.price.spends],
        "cells": expected.n_cells,
        **({"bins": len(expected.edges) + 1} if expected.edges else {}),
        **expected.facts,
        **{name: finite(error) for name, error in expected.errors.items()},
        "verdict": expected.verdict,
        "why": expected.why,
    }


def _bins(edges: tuple[float, ...]) -> str:
    return f" in {len(edges) + 1} bins" if edges else ""


def finite(number: float) -> float | None:
    """A number that JSON has, else None."""
    return number if math.isfinite(number) else None


def _figure(told: Mapping[str, Any]) -> tuple[str, str, str]:
    if told["noise_interval"] is None:  # then a value is noise, and the sampling of it too
        return "–", "–", "–"
    noise, sampling = (_interval(told[name]) for name in ("noise_interval", "sampling_interval"))
    return f"[bold]{_number(told)}[/]", noise, sampling


def _number(told: Mapping[str, Any]) -> str:
    unknown = told["value"] is None or told["noise_interval"] is None
    return "–" if unknown else f"{told['value']:.4f}"


def _interval(ends: list[float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:.3f} … {ends[1]:.3f}"


def _roc(screen: Screen, points: list[dict[str, Any]]) -> str:
    """The area under the curve, filled; the recall at a few rates where it is listened to."""
    if screen.plain:
        return ", ".join(f"recall {_at(points, rate):.2f} at false positive rate {rate:g}" for rate in RATES)
    width = min(WIDTH, screen.width - BESIDE)
    heights = [_at(points, (column + 0.5) / width) * HEIGHT for column in range(width)]
    lines = []
    for row in reversed(range(HEIGHT)):
        filled = "".join(STEPS[round(8 * min(1.0, max(0.0, height - row)))] for height in heights)
        label = {HEIGHT - 1: "1", 0: "0"}.get(row, " ")
        lines.append(f"[dim]{label}│[/][cyan]{filled.rstrip()}[/]")
    axis = f"[dim] └{'─' * width}\n  0{'false positive rate'.center(width - 2)}1[/]"
    return "\n".join(["[dim]recall[/]", *lines, axis])


def _at(points: list[dict[str, Any]], rate: float) -> float:
    """The recall at a false positive rate, between the released points, of which noise may have moved some back."""
    known = [(p["fpr"], p["tpr"]) for p in points if p["fpr"] is not None and p["tpr"] is not None]
    x0, y0 = 0.0, 0.0
    for fpr, tpr in known:
        x, y = max(float(fpr), x0), max(float(tpr), y0)
        if x >= rate:
            return y0 + (y - y0) * ((rate - x0) / (x - x0) if x > x0 else 1.0)
        x0, y0 = x, y
    return y0


def _counted(release: Release) -> str:
    return "persons" if "n_persons" in release.facts else "records"


def _threshold(value: Mapping[str, Any], counted: str) -> str:
    own = next(row for row in value["confusion"] if row["own"])
    positive, unread = (value["metrics"][name] for name in ("positive_share", "unread_share"))
    flagged = own["flagged_share"]["value"]
    parts = [
        f"{own['threshold']:g}, the model's own"
        + (f": {flagged:.1%} of the {counted} lie above it" if flagged is not None else ""),
        f"{positive['value']:.1%} are positive" if positive["value"] is not None else "",
        f"{unread['value']:.1%} cannot be read" if unread["value"] is not None else "",
    ]
    return "; ".join(part for part in parts if part)


def _best(best: Mapping[str, Any], counted: str) -> str:
    whom = "flag {}".format(
        f"above [bold]{best['threshold']:.4g}[/]" if best["threshold"] is not None else best["flag"]
    )
    costs = f"costs {best['false_positive_cost']:g} (false positive) and {best['false_negative_cost']:g} (missed)"
    share = "" if best["prevalence"] is None else f", {best['prevalence']:.1%} positive"
    cost = "" if best["expected_cost"] is None else f": {best['expected_cost']:.4g} a {counted.removesuffix('s')}"
    return f"{whom}{cost}, at {costs}{share}"
