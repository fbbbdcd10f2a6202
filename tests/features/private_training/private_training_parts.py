"""What private training adds to the suites that test all methods alike."""

import os
from unittest.mock import patch

from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.flows.workers.scorers import workers
from dpbo.flows.workers.standing_cluster import ADDRESS
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import resolve

WITHOUT_PERSONS_MEANS = "dp_hypo"  # a method with no proof where each person's mean counts once


# Telling neighbours apart

QUICK = {"dp_hypo": "uniform, η = 0"}  # the pair of the short run
QUICK_RUNS = {"dp_hypo": 150}
FAULTS_OF_PAIRS = {"K revealed"}


def worst_pairs(epsilon):
    from worst_trials import trials_case

    adaptive = DpHypo(sampler="gaussian_process", lower=0.98, upper=1.02, shape=-0.5)
    return {
        "dp_hypo": (
            trials_case("uniform, η = 1", DpHypo(), 3 * epsilon, mean=48, gap=3, runs=(75_000, 0)),
            trials_case("uniform, η = 0", DpHypo(shape=0.0), 2 * epsilon, mean=16, gap=2, runs=(40_000, 60_000)),
            trials_case("adaptive, η = −0.5", adaptive, 2.5 * epsilon, mean=6, gap=1, runs=(15_000, 24_000)),
        )
    }


def planted_pairs(epsilon):
    from worst_trials import trials_case

    return (trials_case("K revealed", DpHypo(), 3 * epsilon, mean=8, gap=0, runs=(0, 30_000), reveals=True),)


# Campaigns of `make audit`


def intrusion_row(team):
    """How many workers count the evaluations of the method that hides them."""
    from test_dp_hypo import study

    with team() as folder, patch.dict(os.environ, {ADDRESS: "tls://127.0.0.1:1"}):
        spec = StudySpec.from_dict(study(folder))
        with workers(spec, str(folder), resolve(spec).method) as made:
            seen = 0 if made is None else made.n_processes
    return "K through a worker's counters", "exact", f"{seen}", "test_workers.py"


def fuzzed_study(study, n):
    """The study of files with both sets sensitive, n records each."""
    study["study"]["method"] = "dp_hypo"
    labels = {"labels": [0, 1], "bounds": {"*": [-3.0, 3.0]}}
    study["data"] |= {"sensitive": "training", "n_training": n} | labels
    return study


# Tables without a header line


def train_privately(study):
    """The study as one whose training set is sensitive, as its [data] says."""
    study["study"]["method"], study["space"] = "dp_hypo", {"learning_rate": {"values": [8.0, 20.0]}}
    study["method"] = {"base": "noisy_gradient_descent"}
    del study["evaluation"]
    return study


# What an observer sees


def observed(study, way):
    from observer.ways import TUNE

    return {"dp_hypo": way(study("dp_hypo", trains=True), TUNE)}


FITS_NO_KERNEL = {"dp_hypo": {"sampler": "gaussian_process", "lower": 0.99, "upper": 1.01}}
NEEDS_NO_KERNEL = {"dp_hypo": {}}
