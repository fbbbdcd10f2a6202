"""A study from its file to its release: resolved once, its split of the data, what is precomputed, its run."""

from dpbo_core.study.resolve import advise_study, plan_study
from dpbo_core.study.run import open_study, run_study
from dpbo_core.study.study_file import read_study

__all__ = ["advise_study", "open_study", "plan_study", "read_study", "run_study"]
