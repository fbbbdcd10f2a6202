"""Whether a release beats a constant answer by its whole 90% interval, and what to do next."""

import math
from collections.abc import Mapping
from typing import Any

from dpbo.tasks.reporting.document import end, interval, score
from dpbo_core.privacy.release import ELSEWHERE, NO_SCORE, PUBLIC_SET, Release, displayed_metric
from dpbo_core.report import ACCURACY

BETTER, NO_BETTER = "better than a constant answer", "no better than a constant answer"
UNSURE = "it cannot be told whether it is better than a constant answer"
CONSTANTS = {  # figures of a report, what one answer to all has of each, and on which records
    "auc": ("AUC", 0.5, ""),
    "cohen_kappa": ("Cohen's kappa", 0.0, ""),
    "r2_public_baseline": ("R²", 0.0, f" on {PUBLIC_SET}{ELSEWHERE}"),
}
NEXT = {
    NO_BETTER: "do not use the model; try other features or another estimator on the public table first, "
    "which costs nothing",
    UNSURE: "more records or a larger ε narrow the interval: dpbo plan says how far; another run at the same ε is "
    "another spend, and no surer",
}
MORE = "more records, of the rarer class above all, or a larger ε give a score: dpbo plan says from how many"
OF_STUDY = "dpbo evaluate STUDY.toml for a report (without [evaluation]: --epsilon 0.5)"
WITHOUT_MODEL = "dpbo ui shows it, with its certificate"
OF_REPORT = "dpbo evaluate STUDY.toml --repair mends the model for free, if it can; dpbo watch says if it is stale"


def beside_constant(interval: tuple[float, float], baseline: float, *, greater_is_better: bool) -> str:
    """In words, if a metric is better than the best constant answer's, by its 90% interval of the noise alone.

    Args:
        interval: of the metric on the sensitive records, low before high.
        baseline: what the constant answer scores.
        greater_is_better: of the metric.
    """
    low, high = interval
    worst, best = (low - baseline, high - baseline) if greater_is_better else (baseline - high, baseline - low)
    if worst > 0:
        return BETTER
    return NO_BETTER if best <= 0 else UNSURE


def verdict(release: Release) -> tuple[str, str]:
    """Better, no better or unsure beside a constant answer, and the numbers behind it; two "" where unknown."""
    metrics, metric = release.value.get("metrics", {}), displayed_metric(release)
    for name, (title, constant, where) in CONSTANTS.items():
        if name in metrics:
            ends = metrics[name]["noise_interval"]
            if ends is None:
                return UNSURE, ""
            word = beside_constant((ends[0], ends[1]), constant, greater_is_better=True)
            numbers = f": {title} {interval(ends)}, where such an answer has {constant:g}{where}"
            return word, numbers + _by_accuracy(release.value)
    if metric is None or metric.interval is None or metric.baseline is None:
        return "", ""
    word = beside_constant(metric.interval, metric.baseline, greater_is_better=metric.greater_is_better)
    return word, f", which scores {score(metric.baseline)} on {metric.baseline_set}"


def _by_accuracy(report: Mapping[str, Any]) -> str:
    """A report's accuracy beside its most frequent class's, in words, by the same counts; "" if one is missing.

    Both rest on cells in common, so that the two noises as if independent make an interval that is not too narrow.
    """
    metrics, classes = report["metrics"], [one["records_share"] for one in report.get("classes", ())]
    accuracy, *shares = cells = [metrics.get(ACCURACY), *(classes or [metrics.get("positive_share")])]
    if any(cell is None or cell["noise_interval"] is None for cell in cells):
        return ""
    values, ends = [cell["value"] for cell in shares], [cell["noise_interval"] for cell in cells]
    constant = max(*values, 1.0 - sum(values))  # of two classes the share of one is reported
    noise, *others = ((high - low) / 2.0 for low, high in ends)
    gain, noise = accuracy["value"] - constant, math.hypot(noise, max(others))
    word = beside_constant((gain - noise, gain + noise), 0.0, greater_is_better=True).partition(" than ")[0]
    return f"; accuracy {end(accuracy['value'])}, where it has {end(constant)} on these very records: {word}"


def next_step(release: Release) -> str:
    """What to do with the release, in a sentence without its full stop."""
    value, facts = release.value, release.facts
    if NO_SCORE in value:
        return MORE
    has_model = value.get("hyperparameters") and facts.get("estimator") != "predictions"
    otherwise = OF_REPORT if "metrics" in value else OF_STUDY if has_model else WITHOUT_MODEL
    return NEXT.get(verdict(release)[0], otherwise)
