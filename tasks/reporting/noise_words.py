"""The noise of a release in one line: how many draws, by which mechanisms, at which scale on the score."""

from collections.abc import Iterator

from dpbo_core.privacy.guarantee import OPERATING_SYSTEM
from dpbo_core.privacy.release import COUNTS, NO_SCORE, Release


def noise_in_words(release: Release) -> str:
    """A release's noise in words, "20 draws; discrete Gaussian, scale 0.0821 on a score between 0 and 1"; of
    injected noise it says NOT PRIVATE.
    """
    top = release.facts.get("score_range")
    draws = f"{len(release.spends)} draws" if len(release.spends) > 1 else "1 draw"
    scored = "" if top is None else f" on a score between 0 and {top:.3g}"
    if COUNTS in release.facts and NO_SCORE in release.value:
        scored = " of as many pairs of the two classes as halves would make"
    noise = f"{draws}; {'; '.join(_scales(release))}{scored}"
    return noise if release.noise == OPERATING_SYSTEM else f"{noise}; INJECTED: NOT PRIVATE"


def _scales(release: Release) -> Iterator[str]:
    for mechanism in dict.fromkeys(spend.mechanism for spend in release.spends):
        unit = release.score_per_unit
        scales = [unit * spend.noise_scale for spend in release.spends if spend.mechanism == mechanism]
        ends = dict.fromkeys(f"{end:.3g}" for end in (min(scales), max(scales)))
        yield f"{mechanism}, scale {' to '.join(ends)}"
