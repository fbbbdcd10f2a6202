"""Whether a release beats a constant answer by its whole 90% interval, and what to do next."""

from dpbo_core.privacy.displayed_metric import displayed_metric
from dpbo_core.privacy.release import Release

BETTER, NO_BETTER = "better than a constant answer", "no better than a constant answer"
UNSURE = "it cannot be told whether it is better than a constant answer"
CONSTANTS = {  # figures of a report whose value for one answer to all is known without any data
    "auc": ("AUC", 0.5),
    "cohen_kappa": ("Cohen's kappa", 0.0),
    "r2_public_baseline": ("R²", 0.0),
}
NEXT = {
    NO_BETTER: "do not use the model; try other features or another estimator on the public table first, which "
    "costs nothing: dpbo plan --fit",
    UNSURE: "more records or a larger ε narrow the interval: dpbo plan says how far; another run at the same ε is "
    "another spend, and no surer",
}
OF_STUDY = "dpbo evaluate says how good the model is by AUC, recall and groups; dpbo watch whether it goes stale"
OF_REPORT = "dpbo evaluate --repair mends the model at no further price; dpbo watch says whether it goes stale"


def beside_constant(interval: tuple[float, float], baseline: float, *, greater_is_better: bool) -> str:
    """Whether a metric is better than the best constant answer's, by its 90% interval, which is of the noise alone.

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
    for name, (title, constant) in CONSTANTS.items():
        if name in metrics:
            ends = metrics[name]["noise_interval"]
            if ends is None:
                return UNSURE, ""
            word = beside_constant((ends[0], ends[1]), constant, greater_is_better=True)
            return word, f": {title} {ends[0]:.3f} … {ends[1]:.3f}, where such an answer has {constant:g}"
    if metric is None or metric.interval is None or metric.baseline is None:
        return "", ""
    word = beside_constant(metric.interval, metric.baseline, greater_is_better=metric.greater_is_better)
    return word, f", which scores {metric.baseline:.4f} on {metric.baseline_set}"


def next_step(release: Release) -> str:
    """What to do with the release, in a sentence without its full stop."""
    return NEXT.get(verdict(release)[0], OF_REPORT if "metrics" in release.value else OF_STUDY)
