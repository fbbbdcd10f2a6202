"""A draft entry for the registry of differential privacy deployments, from a release alone.

The fields are those of the registry's schema, by the authors of arXiv 2509.13509 (`deployments-schema.yaml` of
opendp/deployments-registry-data). What a release does not say stands there as `OPEN`, for its owner to write.
"""

import re
from typing import Any

from dpbo.tasks.reporting.certificate_words import CHANGE, meaning, rests
from dpbo.tasks.reporting.noise_words import noise_in_words
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.guarantee import PUBLIC_QUESTIONS, anyone, whom
from dpbo_core.privacy.release import Release

OPEN = "TO BE WRITTEN BY THE CURATOR"
CURATOR = (
    "The curator reads the records, adds the noise and is trusted. Everybody else sees releases alone, and may be "
    "an adversary who knows all other records."
)


def registry_entry(release: Release) -> dict[str, Any]:
    """A draft entry of a release for the registry of DP deployments, as JSON; refused if it guarantees nothing."""
    guarantee = release.guarantee
    if guarantee.evidence.refuted:
        raise StudyInvalid("the release guarantees nothing", remedy="register a release that is private")
    name = f"{release.study}, edition {release.edition}"
    basic = {
        "name": name,
        "data_curators": [OPEN],
        "description": f"{release.method} on the dataset {release.dataset}. {guarantee.in_words()}",
        "intended_use": OPEN,
        "data_product_type": "Machine learning model"
        if "hyperparameters" in release.value
        else "Summary statistics",
        "data_product_region": OPEN,
        "publication_date": release.released_at[:10],
    }
    variant = {
        "variant_name": "Pure DP" if guarantee.delta == 0.0 else "Approximate DP",
        "data_domain": "Tables with the columns that the study names, and any values in them",
        "unprotected_quantities": "The study, its public data, that it ran and when, what it states of its records",
    }
    loss = {
        "privacy_unit": whom(guarantee.unit),
        "privacy_unit_details": CHANGE[guarantee.relation].format(one=anyone(guarantee.unit)),
        "privacy_parameters": {"epsilon": guarantee.epsilon, "delta": guarantee.delta},
        "privacy_parameters_details": meaning(release),
    }
    model = {
        "model_name": "Central",
        "actors": CURATOR,
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
        "administrative": {"notes": f"Release {release.release_id}", "registry_authors": [OPEN]},
    }
    slug = re.sub(r"[^a-z0-9]+", "-", f"{release.dataset}-{name}".lower()).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": parts}
