"""Public work of a search done by several processes: what is trained or cross-validated whatever the scores are."""

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.study.precomputed import Precomputed, known_candidates, known_public
from dpbo_core.study.public_half import DataSplit
from dpbo_core.study.resolve import ResolvedStudy


def done_by(n_jobs: int, study: ResolvedStudy, data: DataSplit, ledger: PrivacyLedger) -> Precomputed | None:
    """Models and public scores of the candidates that are known beforehand; no sensitive record is near.

    None where the study's release is recorded, which needs no work.

    Args:
        n_jobs: processes, −1 for all processors.
        study: resolved.
        data: its split; the public half alone is looked at.
        ledger: where a release would be recorded.

    Raises:
        StudyInvalid: a candidate cannot be trained.
    """
    from joblib import Parallel, delayed

    public = data.public(study.problem)
    if ledger.release_of(study.key(public.fingerprint).fingerprint) is not None:
        return None
    problem = public.problem
    scored, trained = known_public(study), known_candidates(study)
    with Parallel(n_jobs=n_jobs) as parallel:
        scores = parallel(delayed(problem.public_score)(index) for index in scored)
        models = parallel(delayed(problem.train)(index) for index in trained)
    return Precomputed(
        models=dict(zip(trained, models, strict=True)), scores=dict(zip(scored, scores, strict=True))
    )
