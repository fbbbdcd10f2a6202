"""A theorem's hypothesis that nobody can check: whoever runs the study takes it on by name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """A theorem's hypothesis: the name that a study writes under `accepts`, and one sentence that states it."""

    name: str
    statement: str


GP_PRIOR = Assumption(
    "gp_prior",
    "The validation score, as a function of the hyperparameters and of the data set, is a draw from the "
    "stated multi-task Gaussian process, whose kernels and scale were chosen without looking at the data.",
)
DE_FREITAS_CONSTANTS = Assumption(
    "de_freitas_constants",
    "The constants A and τ of de Freitas, Smola and Zoghi (2012), stated without looking at the data, hold for "
    "this validation score and for that of every neighbouring data set.",
)
ANSWERS_PUBLIC = Assumption(
    "answers_public", "The answers given to the modeller hold nothing that needs protection."
)
ROWWISE_PREDICTIONS = Assumption(
    "rowwise_predictions",
    "The estimator or the score, which dpbo does not vouch for, judges each record by that record alone; or, of "
    "predictions made elsewhere, each was computed from its record and public data alone, by a public model.",
)

PUBLIC_PRIOR = Assumption(
    "public_prior",
    "The scores that the study's prior was made from were measured on public data, or were released privately; no "
    "record that the study protects moved them otherwise.",
)

PUBLISHED_RECORDS = Assumption(
    "published_records",
    "The records of the files that the data set's owner published (dpbo budget publish) are public: they are not "
    "among those that this guarantee protects.",
)

PUBLIC_QUESTIONS = Assumption(
    "public_questions",
    "Whoever asked for the scores of a private objective made each question from public knowledge and from what "
    "was released before it alone.",
)
PUBLIC_MODELS = Assumption(
    "public_models",
    "Every fitted model that was handed in was made from public data, or from what was released, alone.",
)
ROWS_IN_ONE_TABLE = Assumption(
    "rows_in_one_table", "No person has records in more than one of the tables that a pooled watch reads as one."
)
DISJOINT_PEOPLE = Assumption(
    "disjoint_people",
    "No person has a record in the training set and one in the validation set, and nothing in a record decides "
    "which of the two it is in.",
)
STEP_TIMES_HIDDEN = Assumption(
    "step_times_hidden",
    "Nobody but whoever runs the study sees how long its steps take, neither as they run nor in a record of them: "
    "a step trains the model that exact scores led it to, and some models train longer than others.",
)
STATED_BY_CALLING = frozenset({PUBLIC_QUESTIONS.name})  # who calls takes it on; no study and no cap names it

CALLER_ASSUMPTIONS = {
    a.name: a
    for a in (
        GP_PRIOR,
        DE_FREITAS_CONSTANTS,
        ANSWERS_PUBLIC,
        ROWWISE_PREDICTIONS,
        PUBLIC_PRIOR,
        PUBLISHED_RECORDS,
        PUBLIC_QUESTIONS,
        PUBLIC_MODELS,
        ROWS_IN_ONE_TABLE,
        DISJOINT_PEOPLE,
        STEP_TIMES_HIDDEN,
    )
}
