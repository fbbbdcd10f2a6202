"""What is made of a draw: the table it was, and the release of its report."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbo_core.evaluation.bins import Expected
from dpbo_core.evaluation.certified import KIND
from dpbo_core.evaluation.confusion import ConfusionTable
from dpbo_core.evaluation.foreseen import Foreseen
from dpbo_core.evaluation.kind_reports import class_report, error_report
from dpbo_core.evaluation.noised_table import NoisedTable
from dpbo_core.evaluation.places import Grouping
from dpbo_core.evaluation.public_predictions import Predictions
from dpbo_core.evaluation.question import Question, group_names
from dpbo_core.evaluation.regression_errors import ErrorTable, of_bins
from dpbo_core.evaluation.report import plain, report
from dpbo_core.evaluation.subject import Subject
from dpbo_core.evaluation.within import within_bins
from dpbo_core.mechanisms.noise import Noise
from dpbo_core.methods.releasing import averaged_facts
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.privacy.release import Release
from dpbo_core.versions import library_version

OPTIMISTIC = (
    "the model was chosen with the help of these very records: its figures are optimistic on them, and no interval "
    "covers that"
)
UNKNOWN = "if the model was trained or chosen with the help of these records, its figures are optimistic on them"


def told_edges(edges: tuple[float, ...]) -> dict[str, int]:
    """The edges as integers, to be recorded with the draw: what it was a table of."""
    bits = np.array(edges, dtype=np.float64).view(np.int64).tolist()
    return {"edges": len(edges)} | {f"edge {i}": number for i, number in enumerate(bits)}


AnyTable = NoisedTable | ConfusionTable | ErrorTable


def table_of(
    drawn: Mapping[str, Any], subject: Subject | Predictions, question: Question, grouping: Grouping | None
) -> AnyTable:
    """The released table, read as it was drawn, whatever edges would be chosen today."""
    bits = [drawn[f"edge {i}"] for i in range(drawn["edges"])]
    edges = tuple(np.array(bits, dtype=np.int64).view(np.float64).tolist())
    if isinstance(subject, Predictions):
        return _of_predictions(tuple(drawn["draw"]), edges, subject, question, grouping)
    within = within_bins(subject.values, subject.positive, edges)
    return NoisedTable(
        n_records=question.problem.n_averaged,
        scale=question.scale,
        edges=edges,
        threshold=subject.threshold,
        within=within.ranked,
        predicted=_predicted(subject, edges),
        groups=group_names(grouping),
        drawn=tuple(drawn["draw"]),
        within_error=within.error,
        untied=within.untied,
        weight=question.weight,
    )


def _of_predictions(
    drawn: tuple[int, ...],
    edges: tuple[float, ...],
    subject: Predictions,
    question: Question,
    grouping: Grouping | None,
) -> ConfusionTable | ErrorTable:
    m, scale, groups = question.problem.n_averaged, question.scale, group_names(grouping)
    if subject.classes:
        return ConfusionTable(m, scale, subject.classes, groups, drawn, question.weight)
    return ErrorTable(
        n_records=m,
        scale=scale,
        edges=edges,
        bound=subject.bound,
        bins=of_bins(subject.errors, edges, subject.bound),
        variance=float(np.var(subject.truth)) if len(subject.truth) else 0.0,
        groups=groups,
        drawn=drawn,
        weight=question.weight,
    )


def report_of(table: AnyTable) -> dict[str, Any]:
    """The whole report of a released table."""
    if isinstance(table, ConfusionTable):
        return class_report(table)
    return error_report(table) if isinstance(table, ErrorTable) else report(table)


def _told(outlook: Expected | Foreseen, table: AnyTable) -> dict[str, Any]:
    """What was to be expected, and of how many bins."""
    bins = {} if isinstance(table, ConfusionTable) else {"bins": len(table.edges) + 1}
    if isinstance(outlook, Foreseen):
        return bins | {"expected": {name: plain(error) for name, error in outlook.errors.items()}}
    errors = {"auc_error": outlook.auc_error, "recall_error": outlook.recall_error}
    return bins | {"public_share": outlook.share, "expected": errors}


def _predicted(subject: Subject, edges: tuple[float, ...]) -> tuple[float | None, ...] | None:
    """The mean probability of the public records in each bin, the classes weighing as they do there."""
    probability = subject.probability(subject.values)
    if probability is None:
        return None
    at = np.searchsorted(np.array(edges), subject.values)
    counts = np.bincount(at, minlength=len(edges) + 1)
    sums = np.bincount(at, weights=probability, minlength=len(edges) + 1)
    return tuple(float(s / n) if n else None for s, n in zip(sums, counts, strict=True))


def answer(
    question: Question,
    plan: PrivacyPlan,
    noise: Noise,
    subject: Subject | Predictions,
    outlook: Expected | Foreseen,
    table: AnyTable,
    *,
    chosen_here: bool,
) -> Release:
    """The release: the report with the public facts a reader needs beside the guarantee."""
    problem = question.problem
    return Release(
        value=report_of(table),
        guarantee=plan.guarantee.as_drawn(noise.standing),
        spends=plan.spends,
        study=f"{question.spec.name}/{KIND}",
        edition=question.edition,
        method=KIND,
        dataset=question.spec.privacy.dataset,
        facts={
            "version": library_version(),
            "model": "released" if chosen_here else "of a file",
            "estimator": type(
                subject.model.estimator if isinstance(subject.model, FittedEstimator) else subject.model
            ).__name__,
            **averaged_facts(problem),
            **_told(outlook, table),
            "verdict": outlook.verdict,
            "optimism": OPTIMISTIC if chosen_here else UNKNOWN,
            "sampling": f"as if the counted {problem.counted} were independent draws",
        },
        noise=noise.standing,
    )
