"""The `dpbo` command: each subcommand reads its words, makes one call, and prints a screen or one JSON object.

Exit codes: 0 done · 2 the study or the data reference is invalid · 3 the budget refuses · 4 an assumption is not
accepted · 5 a look's alarm, where that is asked for · 1 anything else. Standard error says what happened, the usual
cause and what to do: one line, or three aligned parts where that is a terminal; a stack trace only with --debug,
and never a sensitive value.
"""

import atexit
import gc
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.alerts import alerts
from dpbo.flows.cli.at_once import reading
from dpbo.flows.cli.budget_app import budget_app
from dpbo.flows.cli.outsourced import curate_app, model_app
from dpbo.flows.cli.show import show
from dpbo.flows.cli.status import status
from dpbo_core.errors import DpboError, StudyInvalid

ALARM = 5  # the exit code of a look that alarms, where it is asked for
OBJECTS = 100_000  # that are made between two searches for garbage; imports make many, and none

app = typer.Typer(
    name="dpbo",
    help="Tune models on sensitive validation data; every output is differentially private.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(budget_app, name="budget")
app.add_typer(curate_app, name="curate")
app.add_typer(model_app, name="model")
app.command()(show)
app.command()(status)
app.command()(alerts)

Study = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
AllMethods = Annotated[bool, typer.Option("--all", help="List methods too that cannot run on this study.")]
Explain = Annotated[bool, typer.Option("--explain", help="A second screen: what each line means.")]
Fit = Annotated[
    bool, typer.Option("--fit", help="Cross-validate a few candidates on the public file: what there is to choose.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]


@app.callback()
def start(
    ctx: typer.Context,
    plain: Annotated[
        bool, typer.Option("--plain", help="For screen readers: words alone. Before or after a command.")
    ] = False,
) -> None:
    """Tune models on sensitive validation data; every output is differentially private."""
    from dpbo.flows.cli.screens.terminal import lenient
    from dpbo.flows.plain import PLAIN

    lenient(sys.stdout)
    if plain:
        os.environ[PLAIN] = "1"
    if ctx.invoked_subcommand is None:
        from dpbo.flows.cli.screens.first import print_first

        print_first()


@app.command()
def init(
    training: Annotated[Path, typer.Argument(metavar="TRAINING.csv", help="The PUBLIC file; it is read.")],
    validation: Annotated[
        Path, typer.Argument(metavar="VALIDATION.csv", help="The SENSITIVE file; its header and length are read.")
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict; the last one if not given.")] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Of the study and its budget; the file's or the target's if not given."),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that says whose a record is: whole people are protected.")
    ] = None,
    n_persons: Annotated[
        int | None, typer.Option(help="With --person: how many people the validation file is about; public.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write; one that is there is kept.")] = Path("study.toml"),
    debug: Debug = False,
) -> None:
    """Write a commented study file for two data files. Charges nothing."""
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.written import print_written

    spec = command.init(training, validation, target=target, name=name, person=person, n_persons=n_persons, out=out)
    print_written(spec, out)


@app.command()
def tune(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", help="The study file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Run the bundled study instead, anywhere.")] = False,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="Each task takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[bool, typer.Option("--register", help="Register the final model in MLflow.")] = False,
    explain: Explain = False,
    debug: Debug = False,
) -> None:
    """Plan, reserve, search step by step, release, and show it in MLflow."""
    reading(study)
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.tuned import print_tuned, tuned_json

    chosen = command.chosen_study(study, example=example)
    tuned, account = command.tune(chosen, pad_steps=pad_steps, register=register)
    print_json(tuned_json(tuned)) if json else print_tuned(tuned, account)
    if explain and not json:
        from dpbo.flows.cli.screens.explained import print_explained

        print_explained(tuned.result.release, account)


@app.command()
def score(
    study: Study,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="Each task takes a whole number of so many seconds.")] = 0.0,
    debug: Debug = False,
) -> None:
    """Choose among predictions made elsewhere (estimator = "predictions"): as tune, and nothing is trained."""
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.tuned import print_tuned, tuned_json

    command.check_predictions(study)
    tuned, account = command.tune(study, pad_steps=pad_steps)
    print_json(tuned_json(tuned)) if json else print_tuned(tuned, account)


@app.command()
def evaluate(
    study: Study,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the report, in the place of the study's [evaluation].")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A saved public model, not the study's own: its folder, or MLflow's."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say the price and what to expect; charges nothing.")
    ] = False,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="The counting takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[
        bool,
        typer.Option("--register", help="Let it be MLflow's champion where what is released says it is better."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Evaluate the released model on the sensitive records: ROC, calibration, groups, from one spend."""
    from dpbo.flows.cli import evaluating as command
    from dpbo.flows.cli.screens.evaluated import expected_json, print_expected
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.tuned import evaluated_json, print_report

    if plan:
        expected = command.plan(study, epsilon=epsilon, model=model)
        print_json(expected_json(expected)) if json else print_expected(expected)
        return
    evaluated, account = command.evaluate(study, epsilon=epsilon, model=model, pad=pad_steps, register=register)
    result, tracked = evaluated.result, evaluated.tracked
    if json:
        print_json(evaluated_json(result, tracked) | ({"champion": evaluated.champion} if register else {}))
    else:
        print_report(result, tracked, account, champion=evaluated.champion)


@app.command()
def watch(
    study: Study,
    drop: Annotated[
        float | None, typer.Option(help="How far the score may fall before an alarm; else the study's [watch].")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of ALL looks up to and including the first alarm.")
    ] = None,
    every: Annotated[str | None, typer.Option(help="How often to look: 1d, 6h.")] = None,
    cron: Annotated[str | None, typer.Option(help='When to look, UTC: "0 6 * * *", say.')] = None,
    once: Annotated[bool, typer.Option("--once", help="Look now, once.")] = False,
    look: Annotated[
        str | None, typer.Option(help="With --once: the look's name, today's date if none. Again, the same bit.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="FILE", help="Today's sensitive file, day-{date}.csv say.")
    ] = None,
    reference: Annotated[
        float | None, typer.Option(help="A public score to compare with; the released one if none.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say how often it will err, and its price; charges nothing.")
    ] = False,
    retune: Annotated[
        bool, typer.Option("--retune", help="At an alarm tune a new edition, if the budget has room.")
    ] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="With --once: exit with 5 at an alarm.")] = False,
    json: AsJson = False,
    port: Annotated[int, typer.Option(help="Where a Prefect server is found or started.")] = 4200,
    pad_steps: Annotated[float, typer.Option(help="A look takes a whole number of so many seconds.")] = 0.0,
    trust_server: Annotated[
        bool,
        typer.Option(
            "--trust-server", help="Use a server that asks nobody for a password. It can run code as you."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Has the model gone stale? Look again and again, for one price until the first alarm."""
    from dpbo.flows.cli import watching as command
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo.flows.cli.screens.watched import plan_json, print_plan, print_watched, watched_json

    section = command.wanted(study, drop=drop, epsilon=epsilon, table=table, reference=reference)
    if plan:
        expected = command.plan(study, section)
        print_json(plan_json(expected)) if json else print_plan(expected)
        return
    if not once:
        command.serve(
            study, section, cron=cron, every=every, port=port, pad=pad_steps, retune=retune, trust=trust_server
        )
        return
    watched, account = command.look(study, section, name=look, retune=retune, pad=pad_steps)
    print_json(watched_json(watched)) if json else print_watched(watched, account)
    if exit_code and watched.look.alarm:
        raise typer.Exit(ALARM)


@app.command()
def plan(
    study: Study, json: AsJson = False, all_methods: AllMethods = False, fit: Fit = False, debug: Debug = False
) -> None:
    """Price every method on a study and say what to expect of it. Opens no sensitive file, charges nothing."""
    from dpbo.flows.cli.screens.advice import print_advice
    from dpbo.flows.cli.screens.terminal import print_json
    from dpbo_core.study.baseline import public_baseline
    from dpbo_core.study.positives import public_share
    from dpbo_core.study.public_spread import public_spread
    from dpbo_core.study.resolve import advise_study
    from dpbo_core.study.schedule import planned_if_scheduled
    from dpbo_core.study.sizes import n_public
    from dpbo_core.study.study_file import read_study

    spec = planned_if_scheduled(read_study(study), study.parent)
    folder = study.parent
    read = {"positives": public_share(spec, folder), "baseline": public_baseline(spec, folder)}
    read["spread"] = public_spread(spec, folder) if fit else None
    advice = advise_study(spec, folder, **read, n_public=n_public(spec, folder))
    print_json(advice.to_json()) if json else print_advice(spec, advice, refused=all_methods)


@app.command()
def compare(
    json: AsJson = False,
    repetitions: Annotated[int, typer.Option(min=2, help="Runs of each method in each cell.")] = 100,
    only: Annotated[
        list[str] | None, typer.Option(help="A data set by name; repeat for more. All if none.")
    ] = None,
    task: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Record scores of your own, in place of the data sets.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="An ε; repeat for more. 0.1, 0.3, 1 and 3 if none.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the page and its picture: docs, or comparison for a --task.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure every method beside its rivals, on public data alone: a table, a picture, and MLflow."""
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.comparison import comparison_json, print_comparison
    from dpbo.flows.cli.screens.terminal import print_json

    made = command.compare(
        repetitions=repetitions,
        only=tuple(only or ()),
        out=out or Path("docs" if task is None else "comparison"),
        epsilons=tuple(epsilon or ()),
        own=task,
    )
    print_json(comparison_json(made)) if json else print_comparison(made)


@app.command()
def serve(
    study: Study,
    cron: Annotated[str | None, typer.Option(help='When to fire, UTC: "0 2 * * *", say.')] = None,
    every: Annotated[str | None, typer.Option(help="How often to fire: 30m, 6h, 1d.")] = None,
    port: Annotated[int, typer.Option(help="Where a Prefect server is found or started.")] = 4200,
    pad_steps: Annotated[float, typer.Option(help="Each step takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[bool, typer.Option("--register", help="Register each final model in MLflow.")] = False,
    trust_server: Annotated[
        bool,
        typer.Option(
            "--trust-server", help="Use a server that asks nobody for a password. It can run code as you."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Tune on a schedule: each run is a new edition and a new spend, until the budget refuses."""
    from dpbo.flows.cli import commands as command

    command.serve(
        study, cron=cron, every=every, port=port, pad_steps=pad_steps, register=register, trust=trust_server
    )


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(metavar="release.json", help="A release's own page.")],
    debug: Debug = False,
) -> None:
    """Recompute ε and δ of a release from its certificate alone; where its ledger is here, that it has it still."""
    from dpbo.flows.cli import commands as command
    from dpbo.flows.cli.screens.terminal import print_sentence

    print_sentence(command.check_certificate(certificate))


@app.command()
def doctor(debug: Debug = False) -> None:
    """Look whether this machine is fit: versions, stores, settings, server, budgets. Changes nothing."""
    from dpbo.flows.cli.doctor import examine
    from dpbo.flows.cli.screens.findings import print_findings

    findings = examine()
    print_findings(findings)
    if any(finding.verdict == "wrong" for finding in findings):
        raise typer.Exit(1)


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 5000,
    debug: Debug = False,
) -> None:
    """Show MLflow's pages on the project's store, read-only, to whoever has the link it prints."""
    from dpbo.flows.cli import commands as command

    command.ui(port)


def _refuse_unprintable(words: list[str]) -> None:
    """A name that a shell expanded may hold a terminal's escape codes, and usage errors repeat words as they are.

    Raises:
        StudyInvalid: a word does.
    """
    for word in words:
        if not word.isprintable():
            raise StudyInvalid(
                f"the word {word[:60]!r} of the command holds an invisible character",
                cause="a file with such a name, or text that was pasted",
                remedy="rename the file, or type the word",
            )


def main() -> None:
    """The entry point: run, and turn every error into one message and an exit code."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)  # a process that ends gives its memory back whole: nothing is searched once more
    sys.argv = plain_first(sys.argv)
    debug = "--debug" in sys.argv
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    try:
        _refuse_unprintable(sys.argv[1:])
        app()
    except DpboError as error:
        message = error
        if debug:
            traceback.print_exc()
    except KeyboardInterrupt:
        message = DpboError("stopped", remedy="run the same command again; it continues, and nothing is paid twice")
        message.exit_code = 130
    except Exception as error:  # noqa: BLE001  the last resort: a person gets a message, not a stack trace
        if debug:
            traceback.print_exc()
        message = DpboError(
            f"something unexpected went wrong ({type(error).__name__})",
            cause="a broken installation, a full disk or a store that another version wrote",
            remedy="run it again with --debug to see where",
        )
    else:
        return
    from dpbo.flows.cli.screens.error_message import print_message

    print_message(message)
    sys.exit(message.exit_code)


def plain_first(words: list[str]) -> list[str]:
    """The command's words with --plain, wherever it stands, moved before the subcommand."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[1:end] if word != "--plain"]
    asked = ["--plain"] if len(rest) < end - 1 else []
    return [words[0], *asked, *rest, *words[end:]]
