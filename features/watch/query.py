"""The query as the core knows it: what the certificate of a watch must show."""

from dpbo.features.watch import LOOK
from dpbo.features.watch.terms import LOOKS
from dpbo_core.mechanisms.above_threshold import AboveThreshold
from dpbo_core.privacy.certified import MEANS, CertificateRules, only_shows
from dpbo_core.privacy.declared_query import DeclaredQuery
from dpbo_core.privacy.release import Release

WATCH_PARTS = ("alarm", "look", "looks")


def watch_shown(release: Release) -> CertificateRules:
    """What a certificate must state of a watch (one draw, its sensitivity); raises unless it shows an alarm alone.

    Raises:
        KeyError, TypeError, ValueError: the release shows something else than an alarm, or its facts do not say.
    """
    if not only_shows(release, *WATCH_PARTS) or release.value["alarm"] is not True:
        raise ValueError("value")
    per_record, k, least = (release.facts[name] for name in ("per_record", "rows", "least_records"))
    if not (type(k) is type(least) is int and k >= 1 and least >= 1 and float(per_record) > 0.0):
        raise ValueError("facts")
    sensitivity = float(per_record) * min(k, least) / least
    return CertificateRules({LOOKS: tuple(AboveThreshold.WORTH)}, sensitivity, relations=MEANS)


QUERY = DeclaredQuery(
    watch_shown,
    round_prefix=LOOK,
    unreleased=(
        "no look has raised the alarm, which is its release",
        "a watch releases a bit a look, and ends with the first alarm",
        "dpbo ui shows its timeline; dpbo watch STUDY.toml --once looks again, at no new price",
    ),
)
