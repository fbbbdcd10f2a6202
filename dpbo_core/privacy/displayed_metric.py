"""A released score as people are shown it: in its metric's own unit, put back into the metric's range.

The release keeps the raw numbers, which noise may take out of that range; people are shown none that cannot be.
"""

from dataclasses import dataclass

from dpbo_core.privacy.release import Release

PUBLIC_SET, ELSEWHERE = "the public rows", "; on the sensitive ones it may differ"
COUNTED_ONCE = {"persons": ", each person once", "records": ", record by record"}


@dataclass(frozen=True)
class DisplayedMetric:
    """One metric of a release in its own unit, clipped to its range for people to read.

    Attributes:
        name: of the metric; "score" in a release that named none.
        value: in its range.
        interval: its 90% interval, low before high, or None.
        outside: whether the noise had taken it out of its range.
        greater_is_better: false for a loss.
        baseline: what saying the same of every record gives on the public training set; None where nobody knows.
        baseline_set: that set in words, what counts once in it (of a mean over persons), and a warning.
        ends: of the metric's range, low before high; those of a score from 0 to 1 where the release has none.
    """

    name: str
    value: float
    interval: tuple[float, float] | None
    outside: bool
    greater_is_better: bool
    baseline: float | None
    baseline_set: str
    ends: tuple[float, float]


def displayed_metric(release: Release) -> DisplayedMetric | None:
    """The released score in its metric's own terms, clipped to its range; None where none is released."""
    if release.value.get("score") is None:
        return None
    score, ends = release.value["score"], release.value.get("interval")
    unnamed = {"name": "score", "value": score, "greater_is_better": True, "interval": ends}
    metric = release.value.get("metric", unnamed)
    value, more, top = metric["value"], metric["greater_is_better"], release.facts.get("score_range")
    zero, width = (value - score if more else value + score), 1.0 if top is None else float(top)
    low, high = sorted((zero, zero + width if more else zero - width))
    displayed = value if top is None else min(max(value, low), high)
    interval = metric["interval"]
    return DisplayedMetric(
        metric["name"],
        displayed,
        None if interval is None else (interval[0], interval[1]),
        top is not None and not 0.0 <= score <= top,
        more,
        release.facts.get("baseline"),
        PUBLIC_SET + COUNTED_ONCE.get(str(release.facts.get("baseline_by", "")), "") + ELSEWHERE,
        (low, high),
    )
