"""The release of an evaluation: the table as it was drawn, its report, and the public facts that a reader needs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.releasing import averaged_facts
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation import KIND
from dpbo_core.queries.evaluation.evaluated_model import EvaluatedModel
from dpbo_core.queries.evaluation.histogram_cells import Grouping
from dpbo_core.queries.evaluation.noised_table import NoisedTable, report
from dpbo_core.queries.evaluation.query import EvaluationQuery
from dpbo_core.queries.evaluation.report_kind import ExpectedErrors, plain
from dpbo_core.versions import library_version

OPTIMISTIC = (
    "the model was chosen with the help of these very records: its figures are optimistic on them, and no interval "
    "covers that"
)
UNKNOWN = "if the model was trained or chosen with the help of these records, its figures are optimistic on them"


def edges_as_integers(edges: tuple[float, ...]) -> dict[str, int]:
    """The edges, to be recorded with the draw: what it was a table of."""
    bits = np.array(edges, dtype=np.float64).view(np.int64).tolist()
    return {"edges": len(edges)} | {f"edge {i}": number for i, number in enumerate(bits)}


def table_of(
    drawn: Mapping[str, Any], evaluated: EvaluatedModel, query: EvaluationQuery, grouping: Grouping | None
) -> NoisedTable:
    """The released table, read as it was drawn, whatever edges would be chosen today."""
    bits = [drawn[f"edge {i}"] for i in range(drawn["edges"])]
    edges = tuple(np.array(bits, dtype=np.int64).view(np.float64).tolist())
    return NoisedTable(
        n_records=query.problem.n_averaged,
        scale=query.scale,
        kind=evaluated.kind.of(evaluated.public, edges),
        groups=() if grouping is None else grouping.names,
        drawn=tuple(drawn["draw"]),
        weight=query.weight,
    )


def release_of(
    query: EvaluationQuery,
    plan: PrivacyPlan,
    noise: Noise,
    evaluated: EvaluatedModel,
    expected: ExpectedErrors,
    table: NoisedTable,
    *,
    chosen_here: bool,
) -> Release:
    """The report of a table; `chosen_here` says that these records helped to choose the model."""
    problem, model = query.problem, evaluated.model
    value = report(table)
    bins = {"bins": len(value["table"]["edges"]) + 1} if table.kind.has_bins else {}
    return Release(
        value=value,
        guarantee=plan.guarantee.as_drawn(noise.standing),
        spends=plan.spends,
        study=f"{query.spec.name}/{KIND}",
        edition=query.edition,
        method=KIND,
        dataset=query.spec.privacy.dataset,
        facts={
            "version": library_version(),
            "model": "released" if chosen_here else "of a file",
            "estimator": type(model.estimator if isinstance(model, FittedEstimator) else model).__name__,
            **averaged_facts(problem),
            **bins,
            **expected.facts,
            "expected": {name: plain(error) for name, error in expected.errors.items()},
            "verdict": expected.verdict,
            "optimism": OPTIMISTIC if chosen_here else UNKNOWN,
            "sampling": f"as if the counted {problem.counted} were independent draws",
        },
        noise=noise.standing,
    )
