"""A report of an evaluation among what `dpbo show` prints: each of its figures with both intervals."""

from collections.abc import Iterator
from typing import Any

from dpbo.flows.cli.screens.terminal import named
from dpbo_core.privacy.release import Release


def report_facts(release: Release) -> Iterator[tuple[str, str]]:
    """The figures of the whole, what is told by groups, and how to read them; nothing of another release."""
    metrics = release.value.get("metrics")
    if not isinstance(metrics, dict):
        return
    for name, told in metrics.items():
        yield named(name.replace("_", " ")), _figure(told)
    if release.value.get("groups"):
        yield "groups", ", ".join(named(name) for name in release.value["groups"])
    yield (
        "intervals",
        "of 90%: what the noise leaves open of the figure of these very records; what sampling leaves open of that "
        "of all such records. --json has the whole report, bin by bin and by groups",
    )
    for name in ("optimism", "sampling"):
        if name in release.facts:
            yield name, named(release.facts[name])


def _figure(told: dict[str, Any]) -> str:
    if told["value"] is None:
        return "nothing can be said under this noise"
    ends = [_interval(told[name]) for name in ("noise_interval", "sampling_interval")]
    return f"[bold]{told['value']:.4f}[/]   noise {ends[0]}; sampling {ends[1]}"


def _interval(ends: list[float] | None) -> str:
    return "unknown" if ends is None else f"{ends[0]:.3f} … {ends[1]:.3f}"
