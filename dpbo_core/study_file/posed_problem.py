"""The problem that a study poses, as a value for the floors below: no file is opened."""

from dpbo_core.errors import StudyInvalid
from dpbo_core.problem.model import PredictionsSection
from dpbo_core.problem.named_score import pair_score, score_of
from dpbo_core.problem.problem import DEFAULT_DELTA, Problem, Trainer, TrainingFacts
from dpbo_core.study_file.public_data import PersonFiles, PredictionTable
from dpbo_core.study_file.study import StudySpec, candidates_of, relation_of, unit_of


def problem_of(
    spec: StudySpec,
    *,
    n_validation: int | None,
    trainer: Trainer | None = None,
    training: TrainingFacts | None = None,
    unlisted: str | None = None,
) -> Problem:
    """The problem (model, score, candidates, sizes) that a study poses; it opens no file.

    Args:
        spec: the study.
        n_validation: m; None where the study says its number of persons.
        trainer: the public training set; without one the problem serves for planning.
        training: what is public of the training set where that is sensitive.
        unlisted: what in an estimator given as an object is not on the list; by the study's import path where None.

    Raises:
        StudyInvalid: the score counts pairs, and each person counts once by a mean.
    """
    if isinstance(spec.data, PersonFiles) and pair_score(spec.model) is not None:
        raise StudyInvalid(
            f"{spec.model.score_name} counts pairs of records, and n_persons averages each person's",
            cause="one person's records may be in any number of pairs",
            remedy="leave n_persons out: write n_validation and max_records_per_person, or take a score of records",
        )
    return Problem(
        candidates=candidates_of(spec),
        n_validation=n_validation,
        score=score_of(spec.model),
        model=spec.model,
        search=spec.search,
        epsilon=spec.privacy.epsilon,
        delta=DEFAULT_DELTA if spec.privacy.delta is None else spec.privacy.delta,
        max_records_per_person=spec.privacy.max_records_per_person,
        unit=unit_of(spec),
        person=spec.privacy.person,
        n_persons=spec.data.n_persons if isinstance(spec.data, PersonFiles) else None,
        relation=relation_of(spec),
        training=training,
        editions=(spec.budget and spec.budget.editions) or 1,
        study=spec.name,
        edition=spec.edition,
        dataset=spec.privacy.dataset,
        trainer=trainer,
        unlisted=_unlisted(spec) if unlisted is None else unlisted,
        scored_in_public=not (isinstance(spec.data, PredictionTable) and spec.data.public is None),
    )


def _unlisted(spec: StudySpec) -> str:
    """What is off the allowlist: the estimator's first such part, or who made given predictions; "" for nothing."""
    if spec.model.ours:
        return ""
    if isinstance(spec.model, PredictionsSection):
        return "whoever made the table of predictions"
    from dpbo_core.models.estimator_allowlist.inspection import unlisted_name

    values = {name: axis.values for name, axis in spec.space.items() if axis.values is not None}
    return unlisted_name(spec.model.estimator, spec.model.params, values)
