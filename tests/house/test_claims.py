"""What a table says that dpbo can or cannot do is what the code does: every yes and no of the pages below."""

import re

import pytest
from of_features import merged
from pages import ROOT

from dpbo_core import BudgetRefused, PrivacyLedger, StudyInvalid, StudySpec, advise_study, plan_study, run_study
from dpbo_core.models.scores.union import SCORES
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.report.request import EvaluationQuery
from dpbo_core.study import BudgetSection
from dpbo_core.study.resolve import planning_problem

PAGES = ("docs/index.md", "docs/explanation/compared_with.md")
FILES = {"training": "t.csv", "validation": "v.csv", "target": "y"}


def study(*, score="accuracy", data=None, method="private_grid", epsilon=1.0, **more):
    return StudySpec.from_dict(
        {
            "study": {"name": "claim", "method": method},
            "privacy": {"dataset": "claims", "epsilon": epsilon, **more},
            "data": data or FILES | {"n_validation": 5000},
            "model": {"estimator": "sklearn.linear_model.LogisticRegression", "score": score},
            "space": {"C": {"low": 1e-3, "high": 10.0, "log": True, "points": 16}},
        }
    )


def scored_by(score):
    try:
        return plan_study(study(score=score)).guarantee.epsilon == 1.0
    except StudyInvalid:
        return False


def enough(n_records):
    """Whether any method that chooses by these records is good; the public choice needs none of them."""
    advice = advise_study(study(data=FILES | {"n_validation": n_records}))
    return any(line.verdict == "good" and not line.condition for line in advice.methods)


def kept_across_studies(folder):
    """A cap that one study opened and spent refuses another study, with another ledger object."""
    data, url = {"source": "breast_cancer"}, f"sqlite:///{folder / 'ledger.db'}"
    spec = study(data=data)
    run_study(spec.replace(budget=BudgetSection(epsilon=1.0)), ledger=PrivacyLedger(url))
    with pytest.raises(BudgetRefused):
        run_study(spec.replace(name="another"), ledger=PrivacyLedger(url))
    return True


def writes_nothing_exact(_):
    """A promise of the threat model, with a planted fault for each way out; here that they are there."""
    faults = (ROOT / "tests" / "planted" / "faults.toml").read_text()
    return all(
        f"[{name}]" in faults for name in ("sensitive-repr", "task-result", "own-output", "shown-as-released")
    )


CLAIMS = {  # how a row begins, and which of its yes and no cells: what the code says
    ("a few thousand validation records", 1): lambda _: (
        plan_study(study(data=FILES | {"n_validation": 3000})).spends[-1].noise_scale <= 0.004
    ),
    ("a few dozen", 1): lambda _: enough(36),
    ("several records a person", 1): lambda _: (
        plan_study(study(data=FILES | {"n_persons": 5000}, person="patient")).guarantee.unit is PrivacyUnit.PERSON
    ),
    ("AUC as the score", 1): lambda _: scored_by("roc_auc"),
    ("F1, precision or R²", 1): lambda _: any(map(scored_by, ("f1", "precision", "r2", "average_precision"))),
    ("AUC, recall, calibration", 1): lambda _: (
        len(EvaluationQuery.of(spec := study(), planning_problem(spec), 1.0).plan("").spends) == 1
    ),
    ("dpbo", 1): lambda _: len(planning_problem(study()).candidates) == 16,
    ("dpbo", 2): writes_nothing_exact,
    ("dpbo", 4): kept_across_studies,
    **merged("CLAIMS"),
}


OTHERS = {"docs/how_to/own_a_budget.md": "what a copy for bad days must hold, and nothing that dpbo can do"}
CELL = re.compile(r"^\|.*\| *\**(yes|no)\**( *\||[:,])", re.M)


def test_no_other_table_says_yes_or_no():
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    having = {page.relative_to(ROOT).as_posix() for page in pages if CELL.search(page.read_text())}
    assert having == {*PAGES, *OTHERS}


def claims():
    """Every cell of the pages' tables that begins with yes or no, of our own rows."""
    for page in PAGES:
        for line in (ROOT / page).read_text().splitlines():
            cells = [cell.strip().strip("*") for cell in line.strip("|").split("|")]
            for place, cell in enumerate(cells):
                word = re.match(r"(yes|no)\b", cell)
                ours = page == "docs/index.md" or cells[0] == "dpbo"
                if line.startswith("|") and word and place and ours:
                    yield cells[0], place, word[1] == "yes"


@pytest.mark.parametrize(("row", "place", "claimed"), [*claims()])
def test_a_claim_of_a_table_is_what_the_code_does(row, place, claimed, tmp_path):
    (check,) = (check for (begins, at), check in CLAIMS.items() if row.startswith(begins) and at == place)
    assert check(tmp_path) is claimed


def test_every_claim_that_is_checked_is_made():
    made = {(row, place) for row, place, _ in claims()}
    for begins, at in CLAIMS:
        assert any(row.startswith(begins) and place == at for row, place in made), begins


def test_what_is_no_score_by_name_is_said_to_be_none():
    """The page of scores and the union are one list; what people ask for by name and is not there is refused."""
    assert "roc_auc" in SCORES
    assert not {"f1", "r2", "precision", "recall"} & set(SCORES)


def test_the_noise_of_each_way_to_protect_people_is_what_the_page_says():
    """As docs/explanation/what_epsilon_means.md says, for 5,000 people with 10,121 records, at most 20 each."""
    page = " ".join((ROOT / "docs" / "explanation" / "what_epsilon_means.md").read_text().split())
    assert "`n_persons = 5000` needs noise of scale 0.002 at ε = 1" in page
    assert "`max_records_per_person = 20` ten times as much" in page
    means = study(data=FILES | {"n_persons": 5000}, person="patient")
    slots = study(data=FILES | {"n_validation": 10_121}, person="patient", max_records_per_person=20)
    scale, larger = (plan_study(one).spends[-1].noise_scale for one in (means, slots))
    assert (round(scale, 4), round(larger / scale)) == (0.002, 10)
