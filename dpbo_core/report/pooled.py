"""Reports of one model at several sites, summed into one: post-processing of what each site released.

| symbol | name here | meaning | shape |
|---|---|---|---|
| S | — | sites; no record is at two of them | scalar ≥ 2 |
| m_i, b_i | `n_records`, `scale` | records, and noise in each cell, of site i | (S,) |
| t̃_i | `shifted(counts)` | noised table of site i, shifted to sum to m_i | (C,) |
| Σ t̃_i | `PooledTable` | its noise is the sum of the sites', of scale √(Σ b_i²): b·√S where they are alike | (C,) |
| p | `shares` | shares of the pooled table, those below 0 taken for 0 | (C,) |
| v_ic | `variances` | p_c(1 − p_c)/m_i + 2b_i²/m_i²: of site i's share of cell c, sampling and noise | (S, C) |
| T | `_distance` | Σ_ic (t̃_ic/m_i − μ_c)²/v_ic, with μ_c the mean over sites weighed by 1/v_ic | scalar |

The sites disagree where T is among the `FALSE_ALARM_RATE` largest of tables simulated as if all had the shares p:
m_i records drawn from p, and noise of site i's own law. So equal sites are called different that often at most
(3.9% of 1,000 runs), and what the noise alone can do is no disagreement. The simulation has a fixed seed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.certificate import recompute
from dpbo_core.privacy.release import Release
from dpbo_core.report import KIND
from dpbo_core.report.certified import CERTIFIED, figures_in_words
from dpbo_core.report.evaluated_model import CELL_KINDS
from dpbo_core.report.noised_table import MAX_SIMULATED_NUMBERS, SEED, NoisedTable, report, simulated_noise
from dpbo_core.report.report_kind import Reals

FALSE_ALARM_RATE = 0.05
N_SIMULATIONS = 999
SITE_FIELDS = ("n_records", "n_persons", "noise_scale", "drawn")  # of a table; all else has to be alike


@dataclass(frozen=True, kw_only=True)
class PooledTable(NoisedTable):
    """The sum of several sites' tables."""

    scales: tuple[float, ...]  # b_i, one a site

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Reals:
        """Simulated noise of the sites' added-up table, of the given shape: the sum of a draw for every site."""
        return np.asarray(sum(simulated_noise(rng, scale, shape, self.weight) for scale in self.scales))


def pool(releases: Sequence[Release]) -> dict[str, Any]:
    """Return one report, as JSON, of several sites' releases of one model, and whether the sites disagree."""
    _check(releases)
    written = [release.value["table"] for release in releases]
    tables = [NoisedTable.from_json(table, CELL_KINDS[table.get("kind")]) for table in written]
    first, scales = tables[0], tuple(table.scale for table in tables)
    pooled = PooledTable(
        n_records=sum(table.n_records for table in tables),
        scale=math.hypot(*scales),
        kind=first.kind,
        groups=first.groups,
        drawn=tuple(map(sum, zip(*(table.drawn for table in tables), strict=True))),
        weight=first.weight,
        scales=scales,
    )
    p_value = disagreement(tables, pooled)
    amounts = [(release.guarantee.epsilon, release.guarantee.delta) for release in releases]
    return {
        "sites": [_site(release) for release in releases],
        "guarantee": {
            "epsilon": max(epsilon for epsilon, _ in amounts),
            "delta": max(delta for _, delta in amounts),
            "epsilon_at_every_site": sum(epsilon for epsilon, _ in amounts),
            "delta_at_every_site": sum(delta for _, delta in amounts),
        },
        "disagreement": {
            "p_value": p_value,
            "false_alarms": FALSE_ALARM_RATE,
            "disagree": p_value <= FALSE_ALARM_RATE,
        },
        "value": report(pooled),
    }


def disagreement(tables: Sequence[NoisedTable], pooled: NoisedTable) -> float:
    """Return a p-value: the share of simulated sites with equal proportions that differ as much as these do."""
    m = np.array([table.n_records for table in tables], dtype=np.float64)[:, None]
    positive = np.maximum(pooled.shifted(pooled.counts), 0.0)
    shares = positive / positive.sum()
    scales = np.array([table.scale for table in tables])[:, None]
    variances = shares * (1.0 - shares) / m + 2.0 * scales**2 / m**2
    rng, block = np.random.default_rng(SEED), max(1, MAX_SIMULATED_NUMBERS // variances.size)

    def equal(table: NoisedTable, size: int) -> Reals:
        """Simulated tables, `size` of them, of a site with this table's size and noise and the pooled shares."""
        drawn = rng.multinomial(table.n_records, shares, size=size)
        return table.shifted(drawn + table.noise(rng, drawn.shape))

    measured = _distance(np.stack([table.shifted(table.counts) for table in tables]) / m, variances)
    farther = 0
    for start in range(0, N_SIMULATIONS, block):
        size = min(block, N_SIMULATIONS - start)
        simulated = np.stack([equal(table, size) for table in tables], axis=1) / m
        farther += int((_distance(simulated, variances) >= measured).sum())
    return (1 + farther) / (1 + N_SIMULATIONS)


def _distance(shares: Reals, variances: Reals) -> Reals:
    """The statistic T of how far apart the sites' shares of records in each cell (…, S, C) are, given variances."""
    mean = (shares / variances).sum(axis=-2, keepdims=True) / (1.0 / variances).sum(axis=-2)
    return np.asarray(((shares - mean) ** 2 / variances).sum(axis=(-1, -2)))


def _site(release: Release) -> dict[str, Any]:
    names = ("release_id", "released_at", "study", "edition", "dataset", "guarantee")
    document = release.to_json()
    figures = {"metrics": dict(release.value["metrics"]), "figures": figures_in_words(release)}
    return {name: document[name] for name in names} | figures


def _check(releases: Sequence[Release]) -> None:
    if len(releases) < 2 or any(r.method != KIND or r.guarantee.evidence.refuted for r in releases):
        raise StudyInvalid(
            "a pool needs private reports of two sites or more",
            cause="one file was named, or a release that dpbo evaluate did not make, or no private one",
            remedy="name each site's release.json of its evaluation",
        )
    places = {(release.ledger.get("identity"), release.dataset) for release in releases}
    if len(places) < len(releases):
        raise StudyInvalid(
            "two of the reports are about one dataset of one ledger",
            cause="a file was named twice, or two editions of one site",
            remedy="name one report a site: nobody's records may be counted twice",
        )
    named = (release.facts.get("model_digest") for release in releases)
    digests = {digest if isinstance(digest, str) else None for digest in named}
    if len(digests) > 1 or None in digests:  # what names no model may be of any
        raise StudyInvalid(
            "the reports are of different models",
            cause="each site tuned its own, a model was changed on its way, or a report does not name its model",
            remedy="evaluate one saved model at every site: dpbo evaluate STUDY.toml --model FOLDER",
        )
    site_facts = [
        {name: fact for name, fact in release.value["table"].items() if name not in SITE_FIELDS}
        for release in releases
    ]
    if any(facts != site_facts[0] for facts in site_facts):
        raise StudyInvalid(
            "the tables have different cells",
            cause="other bins or groups, or another public training set",
            remedy="state bins, group and groups in [evaluation] alike, and train on the same public file",
        )
    for release in releases:
        recompute(release, CERTIFIED)
