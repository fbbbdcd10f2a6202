"""Which edition of a study is watched, where an alarm starts a new one: the ledger alone says."""

from dataclasses import replace
from pathlib import Path

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.evaluation.asking import digest_of_released
from dpbo_core.evaluation.watch.recorded_looks import history_of
from dpbo_core.evaluation.watch.terms import watch_key
from dpbo_core.evaluation.watch.todays_table import counted_of
from dpbo_core.spec import StudySpec, WatchSection
from dpbo_core.study.resolve import resolve
from dpbo_core.study.training_set import training_digest


def newest_edition(
    study: StudySpec, ledger: PrivacyLedger, folder: str | Path, wanted: WatchSection, name: str
) -> StudySpec:
    """The study as the edition that a look of this name looks at.

    An alarm's look is the name of the edition that was tuned after it. So from the first edition on: the one whose
    watch has a look of that name, else the last one that was released.

    Args:
        study: its first edition.
        ledger: where editions and looks are.
        folder: the folder that the study's paths are relative to.
        wanted: which edition of the watch.
        name: the look's.
    """
    training, passed = training_digest(study, folder), set()
    while study.edition not in passed:
        passed.add(study.edition)
        resolved = resolve(study, folder)
        model = digest_of_released(resolved.key(training))
        key = watch_key(study, model, counted_of(resolved.problem), wanted.edition)
        history = history_of(ledger, key.fingerprint)
        alarm = next((look for look in history if look.alarm), None)
        if alarm is None or any(look.name == name for look in history):
            return study
        after = replace(study, edition=alarm.name)
        if ledger.release_of(resolve(after, folder).key(training).fingerprint) is None:
            return study
        study = after
    return study
