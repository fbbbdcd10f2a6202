"""What the certificate of a watch must show, declared beside the methods'."""

from typing import Any

from dpbo_core.evaluation.watch import KIND
from dpbo_core.evaluation.watch.terms import LOOKS, Terms
from dpbo_core.mechanisms.above_threshold import AboveThreshold
from dpbo_core.privacy.certified import MEANS, Shown, only_shows
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.versions import library_version

PARTS = ("alarm", "look", "looks")


def shown(release: Release) -> Shown:
    """One draw for all looks, which a unit's records move by k·G/least_records each.

    Raises:
        KeyError, TypeError, ValueError: the release shows something else than an alarm, or its facts do not say.
    """
    if not only_shows(release, *PARTS) or release.value["alarm"] is not True:
        raise ValueError("value")
    per_record, counted, least = (release.facts[name] for name in ("per_record", "counted", "least"))
    if not (type(counted) is type(least) is int and counted >= 1 and least >= 1 and float(per_record) > 0.0):
        raise ValueError("facts")
    sensitivity = float(per_record) * min(counted, least) / least
    return Shown({LOOKS: tuple(AboveThreshold.WORTH)}, sensitivity, relations=MEANS)


def alarm_release(
    plan: PrivacyPlan, terms: Terms, noise: str, *, study: tuple[str, str, str], look: tuple[str, int], **facts: Any
) -> Release:
    """What a watch releases at its end, beside the bits that were shown before: that it alarmed, and when.

    Args:
        plan: its price.
        terms: what was fixed.
        noise: the standing of its source.
        study: name, edition and dataset.
        look: the name and the number of the look that alarmed.
        facts: other public facts.
    """
    name, edition, dataset = study
    return Release(
        value={"alarm": True, "look": look[0], "looks": look[1]},
        guarantee=plan.guarantee.as_drawn(noise),
        spends=plan.spends,
        study=name,
        edition=edition,
        method=KIND,
        dataset=dataset,
        facts={"version": library_version(), **terms.to_json(), **facts},
        noise=noise,
    )
