"""What a release guarantees, in sentences: what it means for a person, what it rests on, its limits."""

import math
from collections.abc import Iterable

from dpbo.tasks.reporting.escaping import in_words
from dpbo.tasks.reporting.report_document import is_report
from dpbo_core.privacy.guarantee import (
    CALLER_ASSUMPTIONS,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
    anyone,
)
from dpbo_core.privacy.release import LEARNED_FROM, Release

MEANING = (
    "{change}: the probability of anything that this release shows changes by a factor of at most "
    "e^{epsilon:g} = {factor:.3g}{but}."
)
CHANGE = {
    NeighboringRelation.REPLACE_ONE: "Replace the data of {one} by any other, however strange",
    NeighboringRelation.REPLACE_ONE_PERSON: (
        "Replace all data of {one}, however many records, by those of any other or by none, however strange"
    ),
    NeighboringRelation.ADD_OR_REMOVE_ONE: "Take away the data of {one}, or add any other, however strange",
    NeighboringRelation.ROW_MOVES_BY_ONE: "Move {one} by a distance of at most 1",
}
EXACT = "That the score is exact: it carries noise, and may lie outside its range."
PUBLIC = "Anything about the training set, the search space or the study itself: they are taken to be public."
PUBLIC_IN_PRIVATE_TRAINING = (
    "Anything about the search space, the study itself, and what it states of its data (header, number of records, "
    "labels, bounds): they are taken to be public."
)
ALWAYS = (
    "That nobody learns what holds for the whole population: a study exists to find that out.",
    "Anything about other releases: each adds its own ε, and the dataset's budget keeps the sum.",
    "That the noise was drawn as stated: for that the curator's ledger is the record.",
)


def untrained_words(release: Release) -> str:
    """How many candidates could not be trained on the public rows, and which, up to the number that it names."""
    listed = release.facts["untrained_candidates"]
    points = "; ".join(", ".join(f"{name} = {in_words(item)}" for name, item in point.items()) for point in listed)
    more = " and others" if len(listed) < release.facts["untrained"] else ""
    return f"{release.facts['untrained']} of the candidates scored as a constant answer: {points}{more}"


def meaning(release: Release) -> str:
    """The guarantee in plain words: by how much one unit's data may change the probability of any release; at ε = ∞
    that every number is as the raw one.
    """
    guarantee = release.guarantee
    if guarantee.epsilon == math.inf:
        return "Treat every number here as the raw one."
    but = f", but for a probability of {guarantee.delta:g}" if guarantee.delta > 0.0 else ""
    factor = math.exp(min(guarantee.epsilon, 700.0))
    change = CHANGE[guarantee.relation].format(one=anyone(guarantee.unit))
    return MEANING.format(change=change, epsilon=guarantee.epsilon, factor=factor, but=but)


def guess(release: Release) -> str:
    """The guarantee as a bet: how often a guess between two neighbouring data sets can be right; "" at ε = ∞."""
    guarantee = release.guarantee
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon == math.inf:
        return ""
    right = 1.0 / (1.0 + math.exp(-epsilon)) + delta / (1.0 + math.exp(min(epsilon, 700.0)))
    near = ", by a distance of at most 1" if guarantee.relation is NeighboringRelation.ROW_MOVES_BY_ONE else ""
    return (
        f"Of two data sets that differ in {anyone(guarantee.unit)} alone{near}, whoever guesses which one was used "
        f"is right in at most {100.0 * right:.3g} of 100 cases with this release in hand, and in 50 without it."
    )


def limits(release: Release) -> Iterable[str]:
    """What a release does not guarantee, a sentence each."""
    yield EXACT
    private = release.guarantee.unit is PrivacyUnit.TRAINING_RECORD
    yield PUBLIC_IN_PRIVATE_TRAINING if private else PUBLIC
    if "optimism" in release.facts:
        yield f"That its figures hold for new records: {release.facts['optimism']}."
    yield from ALWAYS


def rests(release: Release) -> Iterable[str]:
    """The evidence and the assumptions on which the guarantee rests, a sentence each."""
    guarantee = release.guarantee
    yield f"Evidence, {guarantee.evidence.standing.value}: {guarantee.evidence.note}."
    for name in guarantee.assumptions:
        assumption = CALLER_ASSUMPTIONS.get(name)
        yield f"Assumption {name}, taken on by the study's author: {assumption.statement if assumption else ''}"
    if "score_bound" in release.facts:
        yield f"The score is {release.facts['score_bound']}."
    if is_report(release) and "roc" in release.value:
        yield (
            "A model that is repaired from this report, its probabilities and threshold, has no further price: it "
            "follows from what is shown here and from public records."
        )
    if not guarantee.assumptions:
        yield "No assumption about the data: the guarantee is unconditional."
    earlier = release.facts.get(LEARNED_FROM)
    if earlier:
        names = ", ".join(item["edition"] for item in earlier)
        yield (
            f"Its search began with what earlier editions released ({names}): "
            "public numbers, paid for then. Whoever is in several editions pays for each."
        )
    k = release.facts.get("max_records_per_person")
    if "n_persons" in release.facts:
        divided = "The table sums to" if is_report(release) else "The score divides by"
        yield (
            f"Each person, as column {guarantee.person!r} tells them apart, counts once, by the mean of all that "
            f"person's records; what names nobody counts nothing. {divided} "
            f"{release.facts['n_persons']} persons, on the word of the data's owner; how many persons and records "
            "there are is private."
        )
    if k is not None:
        yield _records_of_one(guarantee, f"{k} record{'s' if k != 1 else ''}")


def _records_of_one(guarantee: PrivacyGuarantee, at_most: str) -> str:
    """How many records of one person are protected, `at_most` in words, and whether that is enforced."""
    if guarantee.unit is PrivacyUnit.PERSON:
        return (
            f"Of each person, as column {guarantee.person!r} tells them apart, at most {at_most} count: what is "
            "beyond that, or names nobody, keeps its place and scores a constant."
        )
    both = guarantee.unit is PrivacyUnit.TRAINING_RECORD
    whole = "of the training and validation sets together" if both else "of the validation set"
    return (
        f"Whoever owns at most {at_most} {whole} is protected as stated; that nobody owns more is the word of the "
        "data's owner, which nothing checks."
    )
