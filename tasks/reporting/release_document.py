"""The document of a release: what its screen, certificate, MLflow page and Prefect artifact show is chosen here.

So are the sentences of its guarantee: what it means for a person, what it rests on, its limits and its noise.
"""

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
from dpbo.tasks.reporting.report_document import (
    BETTER_TEXT,
    NO_BETTER_TEXT,
    UNSURE_TEXT,
    is_report,
    report_facts,
    report_figures,
    report_tables,
    verdict,
)
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.admission import account_line
from dpbo_core.privacy.guarantee import (
    CALLER_ASSUMPTIONS,
    OPERATING_SYSTEM,
    OTHER_TOOLS_NOISE,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
)
from dpbo_core.privacy.release import COUNTS, LEARNED_FROM, NO_SCORE, PAIRS, Release, displayed_metric
from dpbo_core.report import BETTER as BETTER_THAN_CHAMPION
from dpbo_core.report import COMPARED, WORSE
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
NOT_COMPARED = "not compared with the model in use"
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

    `replayed` says that nothing was drawn now, `account` what is left of the budget and which report is on the
    choice, `look` where more is shown, `best` the best threshold for a report's stated costs, and `model` what is
    predicted.
    """
    value, guarantee = release.value, release.guarantee
    budget = "" if account is None else account_line(account, study=release.study)
    report = "" if account is None else account.report_on(release.study, release.edition)
    own = "" if displayed_metric(release) is None else OWN_SCORE_TEXT
    again = (
        f"released on {release.released_at[:10]}; nothing was drawn or spent this time. "
        f"For new data give the {'evaluation' if is_report(release) else 'study'} a new edition."
    )
    earlier = ", ".join(item["edition"] for item in release.facts.get(LEARNED_FROM) or ())
    optional = (
        ("not trained", untrained_words(release) if release.facts.get("untrained") else ""),
        ("learned from", earlier and f"the releases of editions {earlier}"),
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
            *([Fact("report", REPORTED_TEXT.format(report=shlex.quote(report)) + own)] if report else []),
            *(
                Fact(name.replace("_", " "), number(item) + UNIT_NOTES.get(name, ""))
                for name, item in value.items()
                if name not in ("score", "hyperparameters") and isinstance(item, str | int | float)
            ),
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


def next_step(release: Release, report: str = "") -> str:
    """Return what to do with the release, in a sentence without its full stop; `report`: the name of one on it."""
    value, facts = release.value, release.facts
    if NO_SCORE in value:
        return MORE_RECORDS_HINT
    if report:
        return f"dpbo show {shlex.quote(report)} prints the report on the model"
    trained_privately = release.guarantee.unit is PrivacyUnit.TRAINING_RECORD  # a report may have no other records
    has_model = value.get("hyperparameters") and facts.get("estimator") != "predictions" and not trained_privately
    otherwise = STUDY_HINT if has_model else NO_MODEL_HINT
    if COMPARED in value or "metrics" in value:
        otherwise = KEEP if COMPARED in value else REPORT_HINT
    return NEXT_STEPS.get(verdict(release)[0], otherwise)


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
        f"Of two data sets that differ in {guarantee.one_protected} alone{near}, whoever guesses which one was "
        f"used is right in at most {100.0 * right:.3g} of 100 cases with this release in hand, and in 50 without "
        "it."
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
    """Return a release's noise, "20 draws; discrete Gaussian, scale 0.0821 on a score between 0 and 1"."""
    top = release.facts.get("score_range")
    draws = f"{len(release.spends)} draws" if len(release.spends) > 1 else "1 draw"
    scored = "" if top is None or is_report(release) else f" on a score between 0 and {top:.3g}"
    if COUNTS in release.facts and NO_SCORE in release.value:
        scored = " of as many pairs of the two classes as halves would make"
    if release.noise == OTHER_TOOLS_NOISE:
        return "drawn by another tool, and not checked"
    kinds = []
    for mechanism in dict.fromkeys(spend.mechanism for spend in release.spends):
        scales = [spend.noise_scale for spend in release.spends if spend.mechanism == mechanism]
        ends = dict.fromkeys(f"{release.score_per_unit * end:.3g}" for end in (min(scales), max(scales)))
        kinds.append(f"{mechanism}, scale {' to '.join(ends)}")
    noise = f"{draws}; {'; '.join(kinds)}{scored}"
    return noise if release.noise == OPERATING_SYSTEM else f"{noise}; INJECTED: NOT PRIVATE"
