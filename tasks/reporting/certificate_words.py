"""What a release guarantees, in sentences: what it means for a person, what it rests on, its limits and its noise.

`registry_entry` drafts an entry for the registry of differential privacy deployments. Its fields are those of the
registry's schema, by the authors of arXiv 2509.13509 (`deployments-schema.yaml` of
opendp/deployments-registry-data). What a release does not say stands there as `CURATOR_TODO`, for its owner to
write.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dpbo.tasks.reporting.document import in_words
from dpbo.tasks.reporting.report_document import is_report
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.guarantee import (
    CALLER_ASSUMPTIONS,
    OPERATING_SYSTEM,
    OTHER_TOOLS_NOISE,
    PUBLIC_QUESTIONS,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
)
from dpbo_core.privacy.release import COUNTS, LEARNED_FROM, NO_SCORE, Release

EPSILON_MEANING = (
    "{change}: the probability of anything that this release shows changes by a factor of at most "
    "e^{epsilon:g} = {factor:.3g}{but}."
)
CHANGE_WORDS = {
    NeighboringRelation.REPLACE_ONE: "Replace the data of {one} by any other, however strange",
    NeighboringRelation.REPLACE_ONE_PERSON: (
        "Replace all data of {one}, however many records, by those of any other or by none, however strange"
    ),
    NeighboringRelation.ADD_OR_REMOVE_ONE: "Take away the data of {one}, or add any other, however strange",
    NeighboringRelation.ZERO_OUT: "Replace the data of {one} by data that add nothing",
    NeighboringRelation.ROW_MOVES_BY_ONE: "Move {one} by a distance of at most 1",
}
SCORE_LIMIT = "That the score is exact: it carries noise, and may lie outside its range."
PUBLIC_LIMIT = "Anything about the training set, the search space or the study itself: they are taken to be public."
PRIVATE_TRAINING_LIMIT = (
    "Anything about the search space, the study itself, and what it states of its data (header, number of records, "
    "labels, bounds): they are taken to be public."
)
GENERAL_LIMITS = (
    "That nobody learns what holds for the whole population: a study exists to find that out.",
    "Anything about other releases: the dataset's budget composes them, to at most the sum of their ε.",
    "That the noise was drawn as stated: for that the curator's ledger is the record.",
)
CURATOR_TODO = "TO BE WRITTEN BY THE CURATOR"
CURATOR_TEXT = (
    "The curator reads the records, adds the noise and is trusted. Everybody else sees releases alone, and may be "
    "an adversary who knows all other records."
)


def untrained_words(release: Release) -> str:
    """How many candidates could not be trained on the public rows, and which, up to the number that it names."""
    listed = release.facts["untrained_candidates"]
    points = "; ".join(", ".join(f"{name} = {in_words(item)}" for name, item in point.items()) for point in listed)
    more = " and others" if len(listed) < release.facts["untrained"] else ""
    return (
        f"{release.facts['untrained']} of the candidates could not be trained and scored as one answer for "
        f"all: {points}{more}"
    )


def meaning(release: Release) -> str:
    """Return the guarantee in plain words: how much one unit's data may change the probability of any release.

    At ε = ∞ it says instead that every number reveals as much as the raw one.
    """
    guarantee = release.guarantee
    if guarantee.epsilon == math.inf:
        return "Treat every number here as the raw one."
    but = f", but for a probability of {guarantee.delta:g}" if guarantee.delta > 0.0 else ""
    factor = math.exp(min(guarantee.epsilon, 700.0))
    change = CHANGE_WORDS[guarantee.relation].format(one=guarantee.one_protected)
    return EPSILON_MEANING.format(change=change, epsilon=guarantee.epsilon, factor=factor, but=but)


def guess(release: Release) -> str:
    """The guarantee as a bet: how often a guess between two neighbouring data sets can be right; "" at ε = ∞."""
    guarantee = release.guarantee
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon == math.inf:
        return ""
    right = 1.0 / (1.0 + math.exp(-epsilon)) + delta / (1.0 + math.exp(min(epsilon, 700.0)))
    near = ", by a distance of at most 1" if guarantee.relation is NeighboringRelation.ROW_MOVES_BY_ONE else ""
    return (
        f"Of two data sets that differ in {guarantee.one_protected} alone{near}, whoever guesses "
        "which one was used "
        f"is right in at most {100.0 * right:.3g} of 100 cases with this release in hand, and in 50 without it."
    )


def limits(release: Release) -> Iterable[str]:
    """Yield what a release does not guarantee, a sentence each."""
    yield SCORE_LIMIT
    private = release.guarantee.unit is PrivacyUnit.TRAINING_RECORD
    yield PRIVATE_TRAINING_LIMIT if private else PUBLIC_LIMIT
    if "optimism" in release.facts:
        yield f"That its figures hold for new records: {release.facts['optimism']}."
    yield from GENERAL_LIMITS


def rests(release: Release) -> Iterable[str]:
    """Yield the evidence and the assumptions on which the guarantee rests, a sentence each."""
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
        yield "No assumption about what the records contain."
    earlier = release.facts.get(LEARNED_FROM)
    if earlier:
        names = ", ".join(item["edition"] for item in earlier)
        yield (
            f"Its search began with what earlier editions released ({names}): "
            "public numbers, paid for then. Whoever is in several editions pays for each."
        )
    k = release.facts.get("max_records_per_person")
    if "n_persons" in release.facts:
        divided = "The table sums to" if "table" in release.value else "The score divides by"
        yield (
            f"Each person, as column {guarantee.person!r} tells them apart, counts once, by the mean of all that "
            f"person's records; what names nobody counts nothing. {divided} "
            f"{release.facts['n_persons']} persons, on the word of the data's owner; how many persons and records "
            "there are is private."
        )
    if k is not None:
        yield _records_of_one(guarantee, f"{k} record{'s' if k != 1 else ''}")


def _records_of_one(guarantee: PrivacyGuarantee, at_most: str) -> str:
    """Return how many records of one person are protected, `at_most` in words, and whether that is enforced."""
    if guarantee.person is not None:
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


def noise_in_words(release: Release) -> str:
    """Return a release's noise in words, "20 draws; discrete Gaussian, scale 0.0821 on a score between 0 and 1"; of
    injected noise it says NOT PRIVATE.
    """
    top = release.facts.get("score_range")
    draws = f"{len(release.spends)} draws" if len(release.spends) > 1 else "1 draw"
    scored = "" if top is None or is_report(release) else f" on a score between 0 and {top:.3g}"
    if COUNTS in release.facts and NO_SCORE in release.value:
        scored = " of as many pairs of the two classes as halves would make"
    if release.noise == OTHER_TOOLS_NOISE:
        return "drawn by another tool, and not checked"
    noise = f"{draws}; {'; '.join(_scales(release))}{scored}"
    return noise if release.noise == OPERATING_SYSTEM else f"{noise}; INJECTED: NOT PRIVATE"


def _scales(release: Release) -> Iterator[str]:
    for mechanism in dict.fromkeys(spend.mechanism for spend in release.spends):
        unit = release.score_per_unit
        scales = [unit * spend.noise_scale for spend in release.spends if spend.mechanism == mechanism]
        ends = dict.fromkeys(f"{end:.3g}" for end in (min(scales), max(scales)))
        yield f"{mechanism}, scale {' to '.join(ends)}"


def registry_entry(release: Release) -> dict[str, Any]:
    """A draft entry of a release for the registry of DP deployments, as JSON; refused if it guarantees nothing."""
    guarantee = release.guarantee
    if guarantee.evidence.refuted:
        raise StudyInvalid("the release guarantees nothing", remedy="register a release that is private")
    name = f"{release.study}, edition {release.edition}"
    basic = {
        "name": name,
        "data_curators": [CURATOR_TODO],
        "description": f"{release.method} on the dataset {release.dataset}. {guarantee.in_words()}",
        "intended_use": CURATOR_TODO,
        "data_product_type": "Machine learning model"
        if "hyperparameters" in release.value
        else "Summary statistics",
        "data_product_region": CURATOR_TODO,
        "publication_date": release.released_at[:10],
    }
    variant = {
        "variant_name": "Pure DP" if guarantee.delta == 0.0 else "Approximate DP",
        "data_domain": "Tables with the columns that the study names, and any values in them",
        "unprotected_quantities": "The study, its public data, that it ran and when, what it states of its records",
    }
    loss = {
        "privacy_unit": guarantee.protected,
        "privacy_unit_details": CHANGE_WORDS[guarantee.relation].format(one=guarantee.one_protected),
        "privacy_parameters": {"epsilon": guarantee.epsilon, "delta": guarantee.delta},
        "privacy_parameters_details": meaning(release),
    }
    model = {
        "model_name": "Central",
        "actors": CURATOR_TEXT,
        "release_type": "One release",
        "release_type_details": "Every release about the dataset is charged to one cap, which is never refilled.",
        "data_source_type": "Static",
        "access_type": "Interactive"
        if PUBLIC_QUESTIONS.name in release.guarantee.assumptions
        else "Non-interactive",
    }
    accounting = {
        "composition": "The sum of the draws' ε, or of their ρ (zCDP) converted at δ, whichever holds at less.",
        "post_processing": "Intervals and figures are computed from the noised values alone.",
    }
    implementation = {
        "preprocessing_and_hyperparameter_tuning": "By public data, or paid for by the draws of this release.",
        "mechanisms": f"{noise_in_words(release)}; drawn from the operating system's source.",
        "justification": " ".join(rests(release)),
    }
    parts = {
        "basic": basic,
        "dp_variant": variant,
        "privacy_loss": loss,
        "deployment_model": model,
        "accounting": accounting,
        "implementation": implementation,
        "administrative": {"notes": f"Release {release.release_id}", "registry_authors": [CURATOR_TODO]},
    }
    slug = re.sub(r"[^a-z0-9]+", "-", f"{release.dataset}-{name}".lower()).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": parts}
