"""The document of a release: what its screen, certificate, MLflow page and Prefect artifact show is chosen here."""

import math
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.certificate_words import guess, limits, meaning, noise_in_words, rests, untrained_words
from dpbo.tasks.reporting.document import (
    NO_NUMBER,
    Document,
    Fact,
    Figure,
    Note,
    Table,
    end,
    in_words,
    interval,
    number,
    score,
)
from dpbo.tasks.reporting.report_document import is_report, report_facts, report_figures, report_tables
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.forecast import account_line
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.privacy.release import (
    ELSEWHERE,
    LEARNED_FROM,
    NO_SCORE,
    PAIRS,
    PUBLIC_SET,
    Release,
    displayed_metric,
)
from dpbo_core.report import ACCURACY, COMPARED, WORSE
from dpbo_core.report import BETTER as BETTER_THAN_CHAMPION
from dpbo_core.report import UNSURE as CANNOT_TELL

if TYPE_CHECKING:
    from dpbo_core.study.final_training import FinalModel

COUNTED_RECORDS = "one record of each counts; the score divides by {n:,} people, on the word of the data's owner"
PUBLIC_TRAINING = "The records that models were trained on are taken to be public, and are not protected."
UNIT_NOTES = {PAIRS: " of as many pairs of the two classes as halves would make"}

CHOICE_NOTE = (
    "The hyperparameters that the search chose. It saw the sensitive records only through noised scores, so "
    "another run could choose others whose scores are nearly as good."
)
SCORE_NOTE = "Its interval, of the noise alone, contains the score of these very records in 90% of cases."
REPORTED_TEXT = "dpbo show {report} has the figures to quote"
OWN_SCORE_TEXT = "; the score above, with noise of its own, made the choice"
NOISE_NOTE = (
    "The noise was drawn from the operating system and added before anything was recorded or shown. Fewer records "
    "or a smaller ε need more noise. Running again gives no better draw: the same study gives the same release, "
    "and a new edition spends budget again."
)
EVIDENCE_NOTE = (
    "How well the proof of the guarantee is established: standard (a textbook or library), printed (a paper as "
    "published), corrected (a paper with its error mended). Assumptions are facts that dpbo cannot check."
)
BUDGET_NOTE = (
    "Every release about the same people spends from it, whoever asks. When the cap is reached, the next study is "
    "refused before any record is read. Budget is never refunded."
)
BETTER_TEXT = "better than always giving the same answer"
NOT_COMPARED = "not compared with the model in use"
NO_BETTER_TEXT = "no better than always giving the same answer"
UNSURE_TEXT = "cannot tell whether it is better than always giving the same answer"
CONSTANT_FIGURES = {  # figures of a report without the study's score, and what one answer to all has of each
    "auc": ("AUC", 0.5, ""),
    "cohen_kappa": ("Cohen's kappa", 0.0, ""),
    "r2_public_baseline": ("R²", 0.0, f" on {PUBLIC_SET}{ELSEWHERE}"),
}
NEXT_STEPS = {
    BETTER_THAN_CHAMPION: "dpbo evaluate STUDY.toml --against MODEL --register makes it MLflow's champion "
    "from this same release",
    WORSE: "keep the champion",
    CANNOT_TELL: "more records or a larger ε narrow the interval; dpbo evaluate --plan shows what it can detect",
    NO_BETTER_TEXT: "do not use the model; first try other features or another estimator on the public table, "
    "which costs no budget",
    UNSURE_TEXT: "more records or a larger ε narrow the interval; dpbo plan shows by how much. Running again at "
    "the same ε spends budget and is no more certain",
}
MORE_RECORDS_HINT = (
    "more records, above all of the rarer class, or a larger ε give a score; dpbo plan shows how many"
)
STUDY_HINT = "dpbo evaluate STUDY.toml for a report. If the study has no [evaluation] section, add --epsilon 0.5"
NO_MODEL_HINT = "run dpbo ui to view it with its certificate"
KEEP = "keep the champion unless you prefer the challenger for another reason"
REPORT_HINT = "dpbo evaluate STUDY.toml --repair recalibrates the model at no further ε"
REPAIRED_HINT = "dpbo predict STUDY.toml NEW.csv writes the model's predictions; dpbo watch monitors its score"


def release_document(
    release: Release,
    *,
    replayed: bool = False,
    account: Account | None = None,
    look: str = "",
    best: Mapping[str, Any] | None = None,
    model: "FinalModel | None" = None,
) -> Document:
    """Return the document of a release, a search's or a report's.

    Args:
        release: the value, the guarantee and the draws.
        replayed: whether it had been released before, and nothing was drawn now.
        account: of the dataset, for its budget's line and the report on the choice; None where unknown.
        look: where more of it is shown; "" for nowhere.
        best: of a report, the best threshold for the costs that are stated now.
        model: trained at what was chosen, if there is one; the document names what it predicts.
    """
    value, guarantee = release.value, release.guarantee
    budget = "" if account is None else account_line(account, study=release.study)
    report = "" if account is None else account.report_on(release.study, release.edition)
    again = (
        f"released on {release.released_at[:10]}; nothing was drawn or spent this time. "
        f"For new data give the {'evaluation' if is_report(release) else 'study'} a new edition."
    )
    optional = (
        ("not trained", untrained_words(release) if release.facts.get("untrained") else ""),
        ("learned from", _earlier_editions(release)),
        ("budget", budget),
        ("view", look),
    )
    return Document(
        title=release.study,
        subtitle=f"edition {release.edition} · {release.method}",
        origin=f"dataset {release.dataset} · released {release.released_at[:16].replace('T', ' ')} UTC · "
        f"release {release.release_id}",
        remark=again if replayed else "",
        tables=(*report_tables(value), _draws(release)),
        answers=tuple(_answers(release, report)),
        figures=(*_steps(value), *report_figures(value)),
        facts=(
            *([Fact("report", _reported(release, report))] if report else []),
            *_other_values(value),
            *report_facts(value, release.facts, best),
            Fact("guarantee", guarantee.in_words()),
            Fact("evidence", f"{guarantee.evidence.standing.value}: {guarantee.evidence.note}"),
            Fact("noise", noise_in_words(release)),
            *(Fact(name, text) for name, text in optional if text),
        ),
        notes=tuple(_notes(release, budget, model)),
        next_step=next_step(release, report),
    )


def _answers(release: Release, report: str) -> Iterator[Fact]:
    chosen, space = release.value.get("hyperparameters", {}), release.facts.get("space", {})
    for name, item in chosen.items():
        yield Fact(name, strong=number(item))
    for name, item in chosen.items():
        if item in [space[name][side] for side in ("low", "high") if side in space.get(name, {})]:
            at_end = f"{name} = {number(item)} is at the end of the range; a wider range may be better"
            yield Fact("range", f"{at_end} (a new edition spends ε again)")
    metric = displayed_metric(release)
    if (difference := release.value.get(COMPARED)) is not None:
        of = f"   challenger minus champion, of {release.facts['score']}; higher is better"
        yield Fact("difference", of, f"{difference['value']:+.4f}")
        if difference["interval"] is not None:
            yield Fact("90% interval", f"{interval(difference['interval'])}   sampling and noise together")
        yield Fact("noise, 90%", f"{interval(difference['noise_interval'])}   on these records")
    if metric is not None:
        ends = f"   90% interval {interval(metric.interval)}" if metric.interval else ""
        less = "" if metric.greater_is_better else "   (lower is better)"
        outside = "   (noise moved it out of its range)" if metric.outside else ""
        yield Fact(metric.name.replace("_", " "), ends + less + outside, score(metric.value))
        if release.guarantee.unit is PrivacyUnit.TRAINING_RECORD and release.guarantee.person is not None:
            yield Fact("people", COUNTED_RECORDS.format(n=release.facts["n_validation"]))
    if lead := lead_in_words(release):
        yield Fact("the choice", lead)
    word, numbers = verdict(release)
    if report:
        return
    if word:
        yield Fact("verdict", f"{numbers}; {NOT_COMPARED}" if word == BETTER_TEXT else numbers, word)
    elif metric is not None and metric.baseline is not None:
        yield Fact("same answer for all", f"{score(metric.baseline)} on {metric.baseline_set}")


def _reported(release: Release, report: str) -> str:
    own = "" if displayed_metric(release) is None else OWN_SCORE_TEXT
    return REPORTED_TEXT.format(report=shlex.quote(report)) + own


def lead_in_words(release: Release) -> str:
    """Return what the released lead of a choice says of it, the margin rounded down; "" where it says nothing."""
    lead = release.value.get("lead")
    if lead is None or lead["at_least"] is None:
        return ""
    margin = math.floor(1000.0 * lead["at_least"]) / 1000.0
    by = f", by at least {margin:.3f}" if margin > 0.0 else ""
    among = f"best of {release.facts['steps']:,} candidates on these records"
    return f"{among}, with confidence {lead['confidence']:.0%}{by}"


def _steps(value: Mapping[str, Any]) -> Iterator[Figure]:
    if "trajectory" in value and NO_SCORE not in value:
        points = tuple((float(point["step"]), point["score"]) for point in value["trajectory"])
        yield Figure("steps", points, ", ".join(end(y) for _, y in points), caption="their private scores")


def _other_values(value: Mapping[str, Any]) -> Iterator[Fact]:
    for name, item in value.items():
        if name not in ("score", "hyperparameters") and isinstance(item, str | int | float):
            yield Fact(name.replace("_", " "), number(item) + UNIT_NOTES.get(name, ""))


def _earlier_editions(release: Release) -> str:
    names = ", ".join(item["edition"] for item in release.facts.get(LEARNED_FROM) or ())
    return f"the releases of editions {names}" if names else ""


def _draws(release: Release) -> Table:
    groups: dict[tuple[str, ...], int] = {}
    for spend in release.spends:
        epsilon = None if spend.epsilon_units is None else spend.epsilon
        key = (spend.mechanism, number(spend.noise_scale), number(epsilon), number(spend.rho))
        groups[key] = groups.get(key, 0) + 1
    unit = ("persons" if "n_persons" in release.facts else "records") if is_report(release) else "score"
    header = ("mechanism", "draws", f"scale, in {unit}", "ε each", "ρ each")
    rows = [header, *((name, str(count), *rest) for (name, *rest), count in groups.items())]
    columns = [column for column in zip(*rows, strict=True) if {*column[1:]} != {NO_NUMBER}]
    header, *rows = zip(*columns, strict=True)
    return Table(header, tuple(rows), title="The noise", needs_a_page=True)


def _notes(release: Release, budget: str, model: "FinalModel | None") -> Iterator[Note]:
    public = "" if release.guarantee.unit is PrivacyUnit.TRAINING_RECORD else PUBLIC_TRAINING
    promise = (release.guarantee.in_words(), meaning(release), " ".join(filter(None, (guess(release), public))))
    yield Note("The guarantee", tuple(filter(None, promise)), strong=True)
    yield Note(f"What was {'measured' if is_report(release) else 'tuned'}", (_study_in_words(release, model),))
    yield Note("What it rests on", tuple(rests(release)))
    yield Note("What it does not guarantee", tuple(limits(release)))
    metric = displayed_metric(release)
    lessons = {
        "The choice": CHOICE_NOTE if release.value.get("hyperparameters") else "",
        "The score": f"None is stated: {release.value[NO_SCORE]}" if NO_SCORE in release.value else "",
        "The noise": NOISE_NOTE,
        "Evidence": EVIDENCE_NOTE,
        "The budget": f"{budget}. {BUDGET_NOTE}" if budget else "",
    }
    if metric is not None:
        better = "higher is better" if metric.greater_is_better else "lower is better"
        lessons["The score"] = f"{metric.name.replace('_', ' ')} on the sensitive records, {better}. {SCORE_NOTE}"
    yield from (Note(title, (text,), lesson=True) for title, text in lessons.items() if text)


def _study_in_words(release: Release, model: "FinalModel | None") -> str:
    facts, value = release.facts, release.value
    axes = ", ".join(facts.get("space", {}))
    over = f", over {axes}" if axes else ""
    n, persons = facts.get("n_validation"), facts.get("n_persons")
    on = f" of {persons:,} persons" if persons is not None else "" if n is None else f" of {n:,} sensitive records"
    steps = f", {facts['steps']} steps" if "trajectory" in value and "steps" in facts else ""
    candidates = f" among {facts['n_candidates']:,} candidates" if "n_candidates" in facts else ""
    positive, predicted = value.get("table", {}).get("positive_class"), ""
    if model is not None:
        classes = model.classes
        of = f", one of {len(classes)} classes" if len(classes) > 2 else ""
        predicted = f" It predicts {model.preprocessing.target}{of}."
        positive = classes[1] if len(classes) == 2 else None
    if positive is not None:
        predicted += f" The positive class is {in_words(positive)}."
    return (
        f"{facts.get('estimator', 'A model')}{over}, on the dataset {release.dataset}{on}; study {release.study}, "
        f"edition {release.edition}, by {release.method}{candidates}{steps}.{predicted}"
    )


def beside_constant(interval: tuple[float, float], baseline: float, *, greater_is_better: bool) -> str:
    """Return words on whether a metric beats the best constant answer's, by its 90% interval of the noise alone."""
    low, high = interval
    worst, best = (low - baseline, high - baseline) if greater_is_better else (baseline - high, baseline - low)
    if worst > 0:
        return BETTER_TEXT
    return NO_BETTER_TEXT if best <= 0 else UNSURE_TEXT


def verdict(release: Release) -> tuple[str, str]:
    """Return whether a model beats the best constant answer, and the numbers behind it; two "" where unknown.

    One figure decides: the study's score, on the records themselves where a report counts them and otherwise beside
    the public records; of a report that does not state that score AUC, kappa or R².
    """
    if COMPARED in release.value:
        return release.value[COMPARED]["verdict"], ""
    if "metrics" in release.value:
        return _verdict_of_report(release)
    metric = displayed_metric(release)
    if metric is None or metric.interval is None or metric.baseline is None:
        return "", ""
    word = beside_constant(metric.interval, metric.baseline, greater_is_better=metric.greater_is_better)
    return word, f" ({score(metric.baseline)} on {metric.baseline_set})"


def _verdict_of_report(release: Release) -> tuple[str, str]:
    metrics = release.value["metrics"]
    if release.facts.get("score") == ACCURACY:
        return _by_accuracy(release.value)
    for name, (title, constant, where) in CONSTANT_FIGURES.items():
        if name in metrics:
            ends = metrics[name]["noise_interval"]
            if ends is None:
                return UNSURE_TEXT, ""
            word = beside_constant((ends[0], ends[1]), constant, greater_is_better=True)
            return word, f": {title} {interval(ends)}, always the same answer {constant:g}{where}"
    return "", ""


def _by_accuracy(report: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verdict by a report's accuracy beside its most frequent class's share, and the numbers behind it.

    Both are sums over shared cells, so treating their noises as independent gives an interval that is not too
    narrow.
    """
    metrics, classes = report["metrics"], [one["records_share"] for one in report.get("classes", ())]
    accuracy, *shares = cells = [metrics[ACCURACY], *(classes or [metrics["positive_share"]])]
    if any(cell["noise_interval"] is None for cell in cells):
        return UNSURE_TEXT, ""
    values, ends = [cell["value"] for cell in shares], [cell["noise_interval"] for cell in cells]
    constant = max(*values, 1.0 - sum(values))  # of two classes the share of one is reported
    noise, *others = ((high - low) / 2.0 for low, high in ends)
    gain, noise = accuracy["value"] - constant, math.hypot(noise, max(others))
    word = beside_constant((gain - noise, gain + noise), 0.0, greater_is_better=True)
    beside = f"accuracy {end(accuracy['value'])}, always the same answer {end(constant)} on the same records"
    return word, f": {beside}, a difference of {interval((gain - noise, gain + noise))}"


def next_step(release: Release, report: str = "") -> str:
    """Return what to do with the release, in a sentence without its full stop; `report`: the name of one on it."""
    value, facts = release.value, release.facts
    if NO_SCORE in value:
        return MORE_RECORDS_HINT
    if report:
        return f"dpbo show {shlex.quote(report)} prints the report on the model"
    trained_privately = release.guarantee.unit is PrivacyUnit.TRAINING_RECORD  # a report may have no other records
    has_model = value.get("hyperparameters") and facts.get("estimator") != "predictions" and not trained_privately
    otherwise = (
        KEEP
        if COMPARED in value
        else REPORT_HINT
        if "metrics" in value
        else STUDY_HINT
        if has_model
        else NO_MODEL_HINT
    )
    return NEXT_STEPS.get(verdict(release)[0], otherwise)
