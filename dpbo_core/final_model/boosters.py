"""Boosted trees of other packages, each in its own format: LightGBM's text, XGBoost's JSON. Neither holds code.

booster.txt, booster.json     the trees
estimator.skops               what comes before them, where they are the last step of a Pipeline
"""

import importlib
from pathlib import Path
from typing import Any

from dpbo_core.final_model.dpbo_served_model import BOOSTERS
from dpbo_core.models.installed import distributions_of_packages


def parted(estimator: Any) -> tuple[Any, Any]:
    """(What comes before, the booster) of a booster, or of a Pipeline that ends in one; else (estimator, None)."""
    from sklearn.pipeline import Pipeline

    if _library(estimator):
        return None, estimator
    if type(estimator) is Pipeline and len(estimator.steps) > 1 and _library(estimator.steps[-1][1]):
        return estimator[:-1], estimator.steps[-1][1]
    return estimator, None


def packages_of(estimator: Any) -> tuple[str, ...]:
    """The distribution that a booster in `estimator` came with, xgboost-cpu say; none where there is no booster."""
    library = _library(parted(estimator)[1])
    return tuple(distributions_of_packages()[library][:1]) if library else ()


def write_booster(folder: Path, booster: Any) -> dict[str, str]:
    """Write it into `folder`; what says how to read it again."""
    library, kind = _library(booster), type(booster).__name__
    path = folder / BOOSTERS[library][0]
    if library == "lightgbm":
        booster.booster_.save_model(str(path))
    else:
        booster.save_model(str(path))
    return {"library": library, "class": kind}


def _library(estimator: Any) -> str:
    """The package of a booster that can be written; "" for every other estimator. By identity, not by name."""
    kind = type(estimator)
    if callable(getattr(estimator, "objective", None)) or getattr(estimator, "pred_early_stop", False):
        return ""  # how it answers is not in its trees alone
    library = kind.__module__.partition(".")[0]
    if library not in BOOSTERS or kind.__name__ not in BOOSTERS[library][1]:
        return ""
    return library if getattr(importlib.import_module(library), kind.__name__, None) is kind else ""
