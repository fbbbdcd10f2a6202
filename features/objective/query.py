"""The query as the core knows it: what the certificate of a private objective must show."""

from dpbo.features.objective.price import CHOICE, score_name
from dpbo_core.mechanisms.exponential import PERMUTE_AND_FLIP
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.methods.pair_draws import one_unit_moves, relations_of
from dpbo_core.privacy.certified import CertificateRules, only_shows, stated_steps
from dpbo_core.privacy.declared_query import DeclaredQuery
from dpbo_core.privacy.guarantee import PUBLIC_QUESTIONS
from dpbo_core.privacy.release import ALL_PAIRS, COUNTS, NO_SCORE, PAIRS, Release


def objective_shown(release: Release) -> CertificateRules:
    """What a certificate must state of a private objective (its draws); raises if the release shows more.

    Raises:
        KeyError, TypeError, ValueError: the release shows more scores than that, or its facts do not say.
    """
    n, scores = stated_steps(release), release.value["trajectory"]
    shown = only_shows(release, "hyperparameters", "score", "interval", "trajectory", PAIRS, NO_SCORE)
    if not shown or [score["step"] for score in scores] != list(range(1, len(scores) + 1)) or len(scores) > n:
        raise ValueError("value")
    draws = {score_name(t): tuple(DiscreteGaussian.WORTH) for t in range(1, n + 1)}
    if COUNTS in release.facts:
        if [spend.what for spend in release.spends].count(ALL_PAIRS) != 1:
            raise ValueError(ALL_PAIRS)
        draws[ALL_PAIRS] = tuple(DiscreteGaussian.WORTH)
    if release.facts["choice_share"] != 0.0:
        draws[CHOICE] = (PERMUTE_AND_FLIP,)
    return CertificateRules(
        draws, one_unit_moves(release), assumptions=(PUBLIC_QUESTIONS.name,), relations=relations_of(release)
    )


QUERY = DeclaredQuery(objective_shown)
