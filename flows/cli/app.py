"""The `dpbo` command: each subcommand reads its words, makes one call, and prints a screen or one JSON object.

Exit codes: 0 done · 2 the study or the data reference is invalid · 3 the budget refuses · 4 an assumption is not
accepted · 1 anything else. A letter on standard error says what happened, the usual cause and what to do: one line,
or three aligned parts where that is a terminal; a stack trace only with --debug, and never a sensitive value.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpbo_core.errors import DpboError, StudyInvalid
from flows.cli.outsourced import curate_app, model_app
from flows.cli.show import show


class BudgetGroup(TyperGroup):
    """`dpbo budget [DATASET]` shows; `dpbo budget set …` sets. The words of the group are no dataset names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Whatever does not start with a word of the group is shown."""
        words = [arg for arg in args if not arg.startswith("-")]
        if "--help" not in args and (not words or words[0] not in self.commands):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="dpbo",
    help="Tune models on sensitive validation data; every output is differentially private.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
budget_app = typer.Typer(cls=BudgetGroup, help="The ledger: limit, spent, remaining, every entry.")
app.add_typer(budget_app, name="budget")
app.add_typer(curate_app, name="curate")
app.add_typer(model_app, name="model")
app.command()(show)

Study = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]


@app.callback()
def start(
    ctx: typer.Context,
    plain: Annotated[
        bool, typer.Option("--plain", help="For screen readers: words alone. Before or after a command.")
    ] = False,
) -> None:
    """Tune models on sensitive validation data; every output is differentially private."""
    from flows.cli.screens.terminal import PLAIN, lenient

    lenient(sys.stdout)
    if plain:
        os.environ[PLAIN] = "1"
    if ctx.invoked_subcommand is None:
        from flows.cli.screens.first import print_first

        print_first()


@app.command()
def init(
    training: Annotated[Path, typer.Argument(metavar="TRAINING.csv", help="The PUBLIC file; it is read.")],
    validation: Annotated[
        Path, typer.Argument(metavar="VALIDATION.csv", help="The SENSITIVE file; its header and length are read.")
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict; the last one if not given.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the study and its budget; the validation file's if not given.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that says whose a record is: whole people are protected.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write; one that is there is kept.")] = Path("study.toml"),
    debug: Debug = False,
) -> None:
    """Write a commented study file for two data files. Charges nothing."""
    from flows.cli import commands as command
    from flows.cli.screens.written import print_written

    print_written(command.init(training, validation, target=target, name=name, person=person, out=out), out)


@app.command()
def tune(
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", help="The study file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Run the bundled study instead, anywhere.")] = False,
    json: AsJson = False,
    pad_steps: Annotated[float, typer.Option(help="Each task takes a whole number of so many seconds.")] = 0.0,
    register: Annotated[bool, typer.Option("--register", help="Register the final model in MLflow.")] = False,
    debug: Debug = False,
) -> None:
    """Plan, reserve, search step by step, release, and show it in MLflow."""
    from flows.cli import commands as command
    from flows.cli.screens.terminal import print_json
    from flows.cli.screens.tuned import print_tuned, tuned_json

    chosen = command.chosen_study(study, example=example)
    tuned, account = command.tune(chosen, pad_steps=pad_steps, register=register)
    print_json(tuned_json(tuned)) if json else print_tuned(tuned, account)


@app.command()
def plan(study: Study, json: AsJson = False, debug: Debug = False) -> None:
    """Price every method on a study and say what to expect of it. Opens no data, charges nothing."""
    from dpbo_core.study.run import advise_study, read_study
    from flows.cli.screens.advice import print_advice
    from flows.cli.screens.terminal import print_json

    spec = read_study(study)
    advice = advise_study(spec)
    print_json(advice.to_json()) if json else print_advice(spec, advice)


@app.command()
def compare(
    json: AsJson = False,
    repetitions: Annotated[int, typer.Option(min=2, help="Runs of each method in each cell.")] = 100,
    only: Annotated[
        list[str] | None, typer.Option(help="A data set by name; repeat for more. All if none.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the page and its picture.")] = Path("docs"),
    debug: Debug = False,
) -> None:
    """Measure every method beside its rivals, on public data alone: a table, a picture, and MLflow."""
    from flows.cli import commands as command
    from flows.cli.screens.comparison import comparison_json, print_comparison
    from flows.cli.screens.terminal import print_json

    made = command.compare(repetitions=repetitions, only=tuple(only or ()), out=out)
    print_json(comparison_json(made)) if json else print_comparison(made)


@budget_app.command("show", hidden=True)
def budget_show(
    dataset: Annotated[str | None, typer.Argument()] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show every dataset's account, or one."""
    from flows.cli import commands as command
    from flows.cli.screens.accounts import accounts_json, print_accounts
    from flows.cli.screens.terminal import print_json

    accounts = command.accounts(dataset)
    print_json(accounts_json(accounts)) if json else print_accounts(accounts)


@budget_app.command("set")
def budget_set(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    epsilon: Annotated[float | None, typer.Option(help="The cap's ε.")] = None,
    delta: Annotated[float, typer.Option(help="The cap's δ.")] = 0.0,
    relation: Annotated[str, typer.Option(help="Which data sets are neighbours.")] = "replace_one",
    accept: Annotated[list[str] | None, typer.Option(help="An assumption the cap allows; repeat for more.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Nothing to protect: no limit.")] = False,
    largest_epsilon: Annotated[
        float | None, typer.Option(help="The most that a study which Prefect starts may ask for; only lowered.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="What it is scored on; repeat for more.")
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME", help="A new name whose studies this cap pays too; repeat for more."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Open a dataset's cap, once; the same again is fine, another is refused."""
    from flows.cli import commands as command

    typer.echo(
        command.set_budget(
            dataset,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            accepts=tuple(accept or ()),
            public=public,
            policy=command.Policy(largest_epsilon, tuple(file or ()), tuple(member or ())),
        )
    )


@budget_app.command("allow")
def budget_allow(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A path ({date} allowed), URL#table, bundled name, or memory.")
    ],
    shared: Annotated[
        bool, typer.Option("--shared", help="Its people pay another dataset too; both accounts say so.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Add a file to what a dataset may be scored on. Charges nothing."""
    from flows.cli import commands as command
    from flows.cli.screens.terminal import print_sentence

    print_sentence(command.allow(dataset, file, shared=shared))


@budget_app.command("merge")
def budget_merge(debug: Debug = False) -> None:
    """Charge what was spent in ./mlruns/ledger.db to the team's ledger. Asked twice it adds nothing."""
    from flows.cli import commands as command
    from flows.cli.screens.terminal import print_sentence

    print_sentence(command.merge())


@budget_app.command("export")
def budget_export(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; otherwise the terminal.")] = None,
    debug: Debug = False,
) -> None:
    """Write the ledger's history as JSON lines. Keep it where nobody who can change the ledger can change it."""
    from flows.cli import commands as command

    command.export(out)


@budget_app.command("verify")
def budget_verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An export the ledger must continue.")
    ] = None,
    accept_restored: Annotated[
        bool, typer.Option("--accept-restored", help="Go on with an older ledger; you answer for what it lost.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check that nothing in the ledger was changed, removed, added or taken back to an older copy."""
    from flows.cli import commands as command
    from flows.cli.screens.terminal import print_sentence

    print_sentence(command.verify(file, accept_restored=accept_restored))


@budget_app.command("recover")
def budget_recover(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export found after an old copy was accepted.")],
    debug: Debug = False,
) -> None:
    """Add what an export has and the ledger lost: each lost study counts as spent, and is shown again as it was."""
    from flows.cli import commands as command
    from flows.cli.screens.terminal import print_sentence

    print_sentence(command.recover(file))


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
    """Tune on a schedule: each firing is a new edition and a new spend, until the budget refuses."""
    from flows.cli import commands as command

    command.serve(
        study, cron=cron, every=every, port=port, pad_steps=pad_steps, register=register, trust=trust_server
    )


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(metavar="release.json", help="A release's own page.")],
    debug: Debug = False,
) -> None:
    """Recompute ε and δ of a release from its certificate alone; where its ledger is here, that it has it still."""
    from flows.cli import commands as command
    from flows.cli.screens.terminal import print_sentence

    print_sentence(command.check_certificate(certificate))


@app.command()
def doctor(debug: Debug = False) -> None:
    """Look whether this machine is fit: versions, stores, settings, server, budgets. Changes nothing."""
    from flows.cli import commands as command
    from flows.cli.screens.findings import print_findings

    findings = command.examine()
    print_findings(findings)
    if any(finding.verdict == "wrong" for finding in findings):
        raise typer.Exit(1)


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 5000,
    debug: Debug = False,
) -> None:
    """Show MLflow's pages on the project's store, read-only, to whoever has the link it prints."""
    from flows.cli import commands as command

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
    """The entry point: run, and turn every error into one letter and an exit code."""
    sys.argv = plain_first(sys.argv)
    debug = "--debug" in sys.argv
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    try:
        _refuse_unprintable(sys.argv[1:])
        app()
    except DpboError as error:
        letter = error
        if debug:
            traceback.print_exc()
    except KeyboardInterrupt:
        letter = DpboError("stopped", remedy="run the same command again; it continues, and nothing is paid twice")
        letter.exit_code = 130
    except Exception as error:  # noqa: BLE001  the last door: a person gets a letter, not a stack trace
        if debug:
            traceback.print_exc()
        letter = DpboError(
            f"something unexpected went wrong ({type(error).__name__})",
            cause="a broken installation, a full disk or a store that another version wrote",
            remedy="run it again with --debug to see where",
        )
    else:
        return
    from flows.cli.screens.letters import print_letter

    print_letter(letter)
    sys.exit(letter.exit_code)


def plain_first(words: list[str]) -> list[str]:
    """The command's words with --plain, wherever it stands, moved before the subcommand."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[1:end] if word != "--plain"]
    asked = ["--plain"] if len(rest) < end - 1 else []
    return [words[0], *asked, *rest, *words[end:]]
