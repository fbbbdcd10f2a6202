"""Honest advice before spending: what every method would do on this study, from public facts alone.

Nothing is opened and nothing is charged. A method that cannot run says so in its own words.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from dpbo_core.errors import DpboError
from dpbo_core.methods import EXCHANGES, METHODS, NO_STUDY, AnyMethod, method_named
from dpbo_core.problem import Problem
from dpbo_core.spec import StudySpec

Verdict = Literal["good", "poor", "useless", "refused"]
POOR, USELESS = 0.1, 0.25  # expected error as a share of the score's range


@dataclass(frozen=True)
class MethodAdvice:
    """One line of `dpbo plan`."""

    kind: str
    epsilon: float | None
    delta: float
    noise_scale: float | None
    score_range: float
    expected_error: float | None
    trainings: int | None
    assumptions: tuple[str, ...]
    evidence: str
    verdict: Verdict
    why: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, null where a refused method has no number."""
        return {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise_scale": self.noise_scale,
            "score_range": self.score_range,
            "expected_error": self.expected_error,
            "trainings": self.trainings,
            "assumptions": list(self.assumptions),
            "evidence": self.evidence,
            "verdict": self.verdict,
            "why": self.why,
        }


@dataclass(frozen=True)
class Advice:
    """Every method's line, and the kind to choose (None if nothing would run)."""

    recommended: str | None
    methods: tuple[MethodAdvice, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"recommended": self.recommended, "methods": [line.to_json() for line in self.methods]}


def advise(spec: StudySpec, problem: Problem) -> Advice:
    """Price every method; the study's own method with its own options, the others with their defaults.

    Raises:
        StudyInvalid: the study's own method or options are not valid.
    """
    own = method_named(spec.method, spec.options)
    lines = tuple(_line(own if kind == own.kind else cls(), problem) for kind, cls in METHODS.items())
    elsewhere = tuple(
        MethodAdvice(kind, None, 0.0, None, problem.score_range, None, None, (), "", "refused", NO_STUDY)
        for kind in EXCHANGES
    )
    tunes = [line for line in lines if line.verdict != "refused" and line.kind != "lipschitz"]
    best = min(tunes, key=lambda line: line.expected_error or math.inf, default=None)
    return Advice(best.kind if best else None, (*lines, *elsewhere))


def _line(method: AnyMethod, problem: Problem) -> MethodAdvice:
    G = problem.score_range
    try:
        plan, outlook = method.plan(problem), method.outlook(problem)
    except DpboError as error:
        return MethodAdvice(method.kind, None, 0.0, None, G, None, None, (), "", "refused", error.what)
    promise = plan.guarantee
    evidence = promise.evidence
    verdict, why = _verdict(outlook.noise_scale, outlook.expected_error, G), outlook.why
    if evidence.refuted:
        verdict, why = "refused", f"{evidence.note}; it runs only on a dataset declared public"
    elif outlook.noise_scale >= G:
        why = f"the noise reaches the score's whole range: {why}"
    return MethodAdvice(
        kind=method.kind,
        epsilon=None if evidence.refuted else promise.epsilon,
        delta=promise.delta,
        noise_scale=outlook.noise_scale,
        score_range=G,
        expected_error=outlook.expected_error,
        trainings=outlook.trainings,
        assumptions=promise.assumptions,
        evidence=evidence.standing.value,
        verdict=verdict,
        why=why,
    )


def _verdict(noise_scale: float, expected_error: float, score_range: float) -> Verdict:
    if expected_error >= USELESS * score_range or noise_scale >= score_range:
        return "useless"
    return "poor" if expected_error >= POOR * score_range else "good"
