"""`dpbo init`: a study file of twenty lines, from the PUBLIC training file and the other one's header alone."""

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import tomli_w
import typer

from dpbo.flows.cli.public_notices import check_ignored, column_uses, notices, reason_left_out
from dpbo.flows.cli.running import check_public_here, writing
from dpbo.flows.cli.sensitive_init import print_sensitive, sensitive_study
from dpbo.flows.terminal import Screen, named
from dpbo_core.data import Preprocessing, Table, check_columns, check_target, read_header, read_table
from dpbo_core.data.features import MAX_CATEGORIES, present_mask
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.values import detect_form, is_text, numbers, shown, sorted_values
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import PUBLIC_ROLE, file_source
from dpbo_core.methods.problem import DEFAULT_DELTA
from dpbo_core.models.scores.accuracy import ACCURACY
from dpbo_core.models.scores.balanced_accuracy import BALANCED_ACCURACY
from dpbo_core.models.scores.regression_error import ABSOLUTE_ERROR
from dpbo_core.models.scores.roc_auc import ROC_AUC
from dpbo_core.privacy.atomically import replace_atomically
from dpbo_core.study import DataSection, PrivacySection, StudySpec
from dpbo_core.study.data_files import check_distinct
from dpbo_core.study.file_schema import study_schema
from dpbo_core.study.spec import read_study

MIN_REGRESSION_VALUES = 20  # different numbers, beyond which a target is taken for an amount and not for classes
UNBALANCED_RATIO = 2.0  # classes whose shares differ by more than this factor are weighted
# Of a file in a split: they say nothing of whose data it holds.
ROLE_WORDS = tuple("validation valid val test testing holdout hold out sensitive private data csv parquet".split())  # noqa: SIM905
FILE_WIDTH = 80  # columns of the file
DEFAULT_FILE = Path("study.toml")
SCHEMA_FILE = "dpbo.schema.json"  # beside the study file, whose first line names it
BIAS_VALUE = 0.7071  # without one a linear model cannot say the larger class of everybody
RARE_SHARE = 0.2  # share of the rarer of two classes, below which accuracy says little and records are ranked
LINE_NOTES = {  # beside a line of the file, or the header of a table
    "budget": "the cap for all studies of these people",
    "evaluation": "a report on the model; spends in addition",
    "[study]": "for new data write a new edition",
    "dataset": "one name for all data of the same people",
    "epsilon": "the total of this study",
    "[data]": "nobody may be in both files (not checked)",
    "training": "PUBLIC; its values may be printed",
    "validation": "SENSITIVE",
    "n_validation": "public",
    "n_persons": "public; each person counts once",
    "bias": "a constant feature for unbalanced classes",
}


def init(
    training: Annotated[Path, typer.Argument(metavar="TRAINING.csv", help="The PUBLIC file, which is read.")],
    validation: Annotated[
        Path | None,
        typer.Argument(
            metavar="VALIDATION.csv", help="The SENSITIVE file, of which only the header and the length are read."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict; by default the last one.")] = None,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=N",
            help="The column that names each record's person, and the number of people in the validation file.",
        ),
    ] = None,
    sensitive: Annotated[
        bool, typer.Option("--sensitive", help="One file, which is SENSITIVE: train privately on it.")
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to leave out; give it once for each column."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The study file to write.")] = DEFAULT_FILE,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing study file.")] = False,
) -> None:
    """Write a study file for two data files, or for one sensitive one; charges nothing."""
    ignored = tuple(ignore or ())
    if sensitive:
        _init_sensitive(training, validation, target, person, ignored, out, force=force)
        return
    if validation is None:
        raise StudyInvalid(
            f"{str(training)!r} is one file, and a study needs a PUBLIC one and a SENSITIVE one",
            cause="all of your records are sensitive, or the second file was left out",
            remedy="name both; or train privately on one: dpbo init ONE.csv --sensitive --target COLUMN",
        )
    check_public_here((file_source(training, PUBLIC_ROLE),))
    people, name = None if person is None else stated_people(person), None if out == DEFAULT_FILE else out.stem
    table = read_table(training, mode=PUBLIC_FILE, display_name=str(training))
    target = target or list(table.columns)[-1]
    text = study_text(
        (training, validation), table, target=target, name=name, folder=out.parent, people=people, ignored=ignored
    )
    _write(out, text, force=force)
    spec = read_study(out)
    print_written(spec, out, notices(training, table, target, people and people[0]), column_uses(table, spec))


def _init_sensitive(
    table: Path,
    other: Path | None,
    target: str | None,
    person: str | None,
    ignored: tuple[str, ...],
    out: Path,
    *,
    force: bool,
) -> None:
    if other is not None or target is None or "=" not in (person or "="):
        raise StudyInvalid(
            "--sensitive takes one file, its --target, and people with their number",
            cause="no record is read, so the last column is not taken, and each person's first record counts",
            remedy="write dpbo init ONE.csv --sensitive --target COLUMN; --person COLUMN=N if people have several",
        )
    people = None if person is None else stated_people(person)
    name = public_name(table, target) if out == DEFAULT_FILE else out.stem
    text, features = sensitive_study(table, target, name=name, folder=out.parent, ignored=ignored, people=people)
    _write(out, text, force=force)
    print_sensitive(out, table, target, features, ignored, people and people[0])


def _write(out: Path, text: str, *, force: bool) -> None:
    """Write a study file whose first line names its JSON Schema, and that schema beside it, for editors."""
    remedy = "give another --out, or --force to overwrite it"
    with writing(f"the study file {str(out)!r}", remedy=remedy):
        with out.open("w" if force else "x", encoding="utf-8") as file:
            file.write(f"#:schema ./{SCHEMA_FILE}\n{text}")
        schema = json.dumps(study_schema(), indent=1, ensure_ascii=False)
        replace_atomically(out.with_name(SCHEMA_FILE), schema.encode(), mode=0o644)


def study_text(
    files: tuple[Path, Path],
    table: Table,
    *,
    target: str,
    name: str | None,
    folder: Path,
    people: tuple[str, int] | None = None,
    ignored: tuple[str, ...] = (),
) -> str:
    """Return the text of a study file in `folder` for a public and a sensitive file.

    Of the sensitive one only the header and the number of records are read, and with `people` that number is not
    used. `people` is the column that says whose a record is, and how many people the validation file is about,
    which is public and so not counted.
    """
    training, validation = files
    header = read_header(validation, mode=SENSITIVE_FILE, display_name=str(validation))
    check_target(table.columns, target, mode=PUBLIC_FILE)
    labelled = present_mask(table.columns[target])
    if labelled.any():
        table = table.having(target)
    check_distinct((training,), (validation,), display_name=str(validation))
    check_columns(table.columns, header.columns, display_name=str(validation))
    privacy: dict[str, object] = {}
    counted: dict[str, object] = {"n_validation": header.n_records}
    no_features = [target]
    if people is not None:
        person, n_persons = people
        if person not in table.columns or person == target:
            raise StudyInvalid(
                f"no column {person!r} can say whose a record is",
                cause="the name is misspelt, or it is the target",
                remedy="give --person a column that both files have",
            )
        privacy, counted = {"person": person}, {"n_persons": n_persons}
        no_features.append(person)
    others = [column for column in table.columns if column not in no_features]
    check_ignored(ignored, others)
    left_out = [column for column in others if column in ignored or reason_left_out(table, column)]
    gaps = any(not present_mask(table.columns[column]).all() for column in others if column not in left_out)
    model, space = _model(table, target)
    dataset = public_name(validation, target)
    data: dict[str, object] = {
        "training": os.path.relpath(training, folder),
        "validation": os.path.relpath(validation, folder),
        **counted,
        "target": target,
    }
    data |= ({"ignore": left_out} if left_out else {}) | ({"missing": "mean"} if gaps else {})
    data |= {} if labelled.all() else {"missing_target": "drop"}
    tables: dict[str, dict[str, object]] = {
        "study": {"name": name or dataset, "method": "auto"},
        "privacy": {"dataset": dataset, "epsilon": 1.0} | privacy,
        "budget": {"epsilon": 5.0, "delta": 1e-5},
        "evaluation": {"epsilon": 1.0},
        "data": data,
        "model": model,
        "space": space,
    }
    spec = StudySpec.from_dict(tables)  # what it writes, it can read
    Preprocessing.fit(
        table.without([*left_out, *no_features[1:]]),
        target,
        unit_ball=spec.model.linear,
        regression=spec.model.regression,
        missing="mean" if gaps else "refuse",
    )
    return "".join(_lines(tables))


def _lines(tables: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of a study file: tables that fit in one line first, then the others, a key a line."""
    for name in ("budget", "evaluation"):
        yield _noted(name, tables[name])
    for name in ("space", "privacy"):
        for key, value in tables[name].items():
            yield _noted(f"{name}.{_key(key)}", value, note=key)
    for name in ("study", "data", "model"):
        yield _noted(f"[{name}]")
        for key, value in tables[name].items():
            yield _noted(key, value)


def _noted(name: str, value: object = None, *, note: str = "") -> str:
    """Return the line of a key, or of a table's header, with its note where both fit in 80 columns."""
    text = name if value is None else f"{name} = {_inline(value)}"
    whole = f"{text:36} # {LINE_NOTES.get(note or name)}"
    return f"{text if (note or name) not in LINE_NOTES or len(whole) > FILE_WIDTH else whole}\n"


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def public_name(validation: Path, target: str) -> str:
    """A name for the study and its budget: the file's or folder's, less words like "validation", else the target's.

    `ward_validation.csv` is "ward"; `ward/validation.csv` too; a bare `validation.csv` says only what is predicted.
    """
    for text in (validation.stem, validation.parent.name):
        words = [word for word in re.split(r"[\W_]+", text) if word and word.lower() not in ROLE_WORDS]
        if words:
            return text if len(words) == len(re.findall(r"[^\W_]+", text)) else "-".join(words)
    name = "".join(sign if sign.isprintable() else "_" for sign in unicodedata.normalize("NFKC", target))
    return name.strip()[:100].strip() or "study"


def stated_people(text: str) -> tuple[str, int]:
    """Return the column and the number of people in the option --person; refused without a number."""
    column, _, number = text.rpartition("=")
    if not column or not number.isdecimal():
        raise StudyInvalid(
            "how many people is the validation file about?",
            cause="each of them counts once, their number divides the score, and counting them would tell it",
            remedy="write --person COLUMN=N, a public number: a few too many or too few only shift the score",
        )
    return column, int(number)


def _model(table: Table, target: str) -> tuple[dict[str, object], dict[str, object]]:
    """The tables [model] and [space] that fit the target's values; refused if there are none, or too many texts."""
    values = table.columns[target]
    classes = sorted_values(values)
    if not classes:
        raise StudyInvalid(
            f"the target {target!r} has no value in the public file",
            cause="that column is empty there; without --target it is the file's last one",
            remedy="give --target the column to predict",
        )
    if is_text(values) and len(classes) > MAX_CATEGORIES:
        raise StudyInvalid(
            f"the target {target!r} is a text of {len(classes)} different values",
            cause=f"it holds {form}" if (form := detect_form(values)) else "it is a name, a date or an identifier",
            remedy="correct it in both files, or give --target the column to predict",
        )
    forest: dict[str, object] = {"max_depth": {"low": 1, "high": 12, "integer": True, "points": 12}}
    whole = all(isinstance(value, str) or value.is_integer() for value in classes)
    if not is_text(values) and len(classes) > (MIN_REGRESSION_VALUES if whole else 2):
        one = numbers(values)[present_mask(values)]
        low, high = np.quantile(one, [0.05, 0.95])
        bound = float(f"{max(high - low, 1e-9) / 2:.2g}")
        estimator = "sklearn.ensemble.RandomForestRegressor"
        return {"estimator": estimator, "score": ABSOLUTE_ERROR.name, "error_bound": bound}, forest
    if len(classes) == 2:
        axis = {"low": 1e-4, "high": 10.0, "log": True, "points": 64}
        rarer = min(sum(value == one for value in values.tolist()) for one in classes) / len(values)
        score = ROC_AUC.name if rarer < RARE_SHARE else ACCURACY.name
        return {"estimator": "logistic", "score": score, "bias": BIAS_VALUE}, {"lambda": axis}
    counts = np.array([sum(value == one for value in values.tolist()) for one in classes], dtype=float)
    model: dict[str, object] = {"estimator": "sklearn.ensemble.RandomForestClassifier", "score": ACCURACY.name}
    if counts.min() > 0 and counts.max() > UNBALANCED_RATIO * counts.min():
        shares = np.maximum(1, np.rint(counts / counts.sum() * 1000)) / 1000
        shares[np.argmax(shares)] += 1.0 - shares.sum()
        named = {shown(one): round(float(share), 3) for one, share in zip(classes, shares, strict=True)}
        model |= {"score": BALANCED_ACCURACY.name, "class_shares": named}
    return model, forest


def print_written(
    spec: StudySpec, out: Path, noticed: Iterable[tuple[str, str]], uses: Iterable[tuple[str, str]]
) -> None:
    """Print what `dpbo init` wrote, its notices about the public file, the use of each column, the next command."""
    screen, data, model = Screen(), spec.data, spec.model
    screen.say(
        f"[bold]{named(out)}[/] is written. Of the validation file only the header and the number of records were "
        "read; nothing was charged.\n"
    )
    axes = {
        name: f"from {axis.low:g} to {axis.high:g}" if axis.values is None else f"of {len(axis.values)} values"
        for name, axis in spec.space.items()
    }
    delta = DEFAULT_DELTA if spec.privacy.delta is None else spec.privacy.delta
    facts = [
        ("model", f"{model.estimator}, scored by {model.score}"),
        ("searches", ", ".join(f"{named(name)} {values}" for name, values in axes.items())),
    ]
    if data.divided is not None:
        facts = [("predicts", named(data.target_column)), *facts, ("protects", _protected(spec.privacy, data))]
    report = "" if spec.evaluation is None else f"; a report on the model ε = {spec.evaluation.epsilon:g}"
    facts.append(("price", f"ε = {spec.privacy.epsilon:g}, δ at most {delta:g}{report}"))
    if spec.budget is not None:
        cap = f"ε = {spec.budget.epsilon:g}, δ = {spec.budget.delta:g}"
        facts.append(("cap", f"{cap} for all studies of {named(repr(spec.privacy.dataset))}, set once"))
    noticed = list(noticed)
    if spec.privacy.person is None and "people" not in dict(noticed):
        facts.append(("people", "if a column says whose a record is, --person COLUMN=N protects people"))
    if data.ignored:
        hint = 'of your own in risk_model.py takes what is left out as it is: estimator = "risk_model:pipeline"'
        facts.append(("pipeline", hint))
    facts += noticed
    screen.facts(facts)
    screen.say("\nEach column of the public file:\n")
    screen.facts(uses)
    screen.say(
        "\nRead it through: price, cap and who is protected are yours to choose. Make sure that nobody in the "
        "validation file is in the training file. Then:\n"
    )
    screen.say(f"  dpbo plan {named(out)}")


def _protected(privacy: PrivacySection, data: DataSection) -> str:
    if data.person_count is not None:
        who = f"the people in column {named(str(privacy.person))} of {named(data.validation_file)}"
        return f"{who}: {data.person_count:,}, as you state; each counts once"
    n, file, k = f"{data.n_scored:,}", named(data.validation_file), privacy.max_records_per_person
    if privacy.person is None:
        return f"each of the {n} records of {file}"
    return f"the people in column {named(privacy.person)} of {file} ({n} records): at most {k} of each count"
