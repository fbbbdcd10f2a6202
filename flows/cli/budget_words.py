"""The other words of `dpbo budget`: `set`, `allow`, `publish` and `keys`, the owner's; and the ledger's history.

`export`, `verify` and `recover` say whether it is whole, and make it so. `status` says what runs here, what ran
last and what is left, from locks and the ledger.
"""

import sys
from json import loads
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dpbo.flows.cli.app import AsJson
from dpbo.flows.cli.budget import account_json, budget_app, rounds_text
from dpbo.flows.cli.running import accounts_here, lines_of, own_ledger, writing
from dpbo.flows.prefect_runtime.flow_runs import n_alive
from dpbo.flows.stores import Stores
from dpbo.flows.terminal import Screen, named, print_json, print_sentence
from dpbo_core.errors import StudyInvalid, printable, suggestion
from dpbo_core.ledger import audit, recovery
from dpbo_core.ledger.accounting.account import DECLARED_STANDING, Entry, PrivacyBudget
from dpbo_core.ledger.accounting.admission import account_line
from dpbo_core.ledger.accounts import DatasetAccount
from dpbo_core.ledger.owners_ledger import Code
from dpbo_core.ledger.sources import MODEL_ROLE, PUBLIC_ROLE, Source, file_source
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.guarantee import CALLER_ASSUMPTIONS, NeighboringRelation

N_RUNS_SHOWN = 5  # of what ran last


@budget_app.command("set")
def set_cap(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    epsilon: Annotated[float | None, typer.Option(help="The cap on ε.")] = None,
    delta: Annotated[float, typer.Option(help="The cap on δ.")] = 0.0,
    relation: Annotated[str, typer.Option(help="The neighbouring relation of the cap.")] = "replace_one",
    accept: Annotated[list[str] | None, typer.Option(help="An assumption the cap allows; repeat for more.")] = None,
    public: Annotated[bool, typer.Option("--public", help="The records are public: set no limit.")] = False,
    largest_epsilon: Annotated[
        float | None, typer.Option(help="The largest ε of a study that Prefect starts; it can only be lowered.")
    ] = None,
    a_day: Annotated[
        float | None,
        typer.Option(
            metavar="EPSILON",
            help="The largest ε within 24 hours of runs that Prefect starts; it can only be lowered.",
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A file that this dataset may be scored on; repeat for more."),
    ] = None,
) -> None:
    """Set a dataset's cap, once. The same cap again is accepted; another one is refused."""
    from dpbo.flows.private_flow import asked_by
    from dpbo_core.study.sections import PrivacySection

    PrivacySection(dataset=dataset, epsilon=1.0)
    for amount in (largest_epsilon, a_day):
        if amount is not None:
            PrivacySection(dataset=dataset, epsilon=amount)
    ledger = own_ledger()
    of_policy_alone = epsilon is None and not public and (largest_epsilon is not None or a_day is not None or file)
    budget = ledger.budget(dataset) if of_policy_alone else None
    if budget is None:
        budget = _budget(dataset, epsilon, delta, relation, tuple(accept or ()), public=public)
    new = ledger.set_budget(
        budget,
        sources=tuple(map(_source, file or ())),
        largest_epsilon=largest_epsilon,
        a_day=a_day,
        set_by=asked_by(),
    )
    limit, limit_delta = from_units(budget.epsilon_units), from_units(budget.delta_units)
    cap = "no limit: declared public" if budget.public else f"limit ε = {limit:g}, δ = {limit_delta:g}"
    typer.echo(printable(f"{dataset}: {cap} ({'opened' if new else 'as before'})"))


def _budget(
    dataset: str, epsilon: float | None, delta: float, relation: str, accepts: tuple[str, ...], *, public: bool
) -> PrivacyBudget:
    from dpbo_core.study.sections import BudgetSection

    if public:
        if epsilon is not None:
            raise StudyInvalid("a public dataset has no ε", remedy="give --public or --epsilon, not both")
        return PrivacyBudget.without_limit(dataset)
    if epsilon is None:
        raise StudyInvalid("a cap needs --epsilon", remedy="add --epsilon 5 --delta 1e-5, say")
    BudgetSection(epsilon=epsilon, delta=delta)
    valid = [item.value for item in NeighboringRelation]
    if relation not in (*valid, "add_or_remove"):  # as a study file has it
        raise StudyInvalid(f"relation {relation!r} is not known{suggestion(relation, valid)}")
    for name in accepts:
        if name not in CALLER_ASSUMPTIONS:
            raise StudyInvalid(f"assumption {name!r} is not known{suggestion(name, CALLER_ASSUMPTIONS)}")
    return PrivacyBudget.of(
        dataset, epsilon=epsilon, delta=delta, relation=NeighboringRelation(relation), accepts=accepts
    )


@budget_app.command()
def allow(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="A path ({date} allowed), URL#table, bundled name, or memory; or a name."
        ),
    ],
    role: Annotated[
        Literal["training", "model", "score", "estimator", "shared"] | None,
        typer.Option(
            "--as",
            help="training, model: files that Prefect's runs may read. score, estimator: a name to import, "
            "package.module:name. shared: a file whose people pay another dataset too.",
        ),
    ] = None,
) -> None:
    """Allow a file for scoring; with --as, allow what studies may read or import. Charges nothing."""
    ledger, subject, also = own_ledger(), what, ""
    if role in ("score", "estimator"):
        new = ledger.allow_code(dataset, Code(role, what))
        may = "may be scored by" if role == "score" else "Prefect's runs may import"
    elif role in ("training", "model"):
        source = file_source(what, PUBLIC_ROLE if role == "training" else MODEL_ROLE)
        new, subject = ledger.allow_reading(dataset, source), f"{source} as {source.role}"
        may = "Prefect's runs may read"
    else:
        source = _source(what)
        others = ledger.allow_shared(dataset, source) if role == "shared" else ()
        new = others is not None if role == "shared" else ledger.allow(dataset, source)
        also = f" Its people pay {', '.join(others)} too, and each of these accounts says so." if others else ""
        may, subject = "may be scored on", str(source)
    print_sentence(f"{dataset}: {may} {subject} {'from now on' if new else '(as before)'}.{also}")


@budget_app.command()
def publish(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file, or a folder of Parquet files.")],
) -> None:
    """Declare a file's records public, permanently; every later release states it."""
    source = file_source(file, PUBLIC_ROLE)
    if not source.marks:
        raise StudyInvalid(f"there is no file {str(file)!r}", remedy="name the file whose records are public")
    new = own_ledger().publish(dataset, source)
    since = "every later release says so (published_records)" if new else "as before"
    print_sentence(f"{dataset}: the records of {source} are public ({since}).")


@budget_app.command()
def keys(word: Annotated[Literal["new"], typer.Argument(help="new: create a key pair, once.")]) -> None:
    """Create the key that signs every release from now on. Charges nothing and opens no data."""
    from dpbo.tasks.reporting.release_files import new_key

    Stores().make_folder()
    with writing("the key", remedy="set DPBO_SIGNING_KEY to another place"):
        private, public, name = new_key()
    print_sentence(f"{private} signs, and is for you alone; {public} verifies: publish it. Key {name}.")


@budget_app.command()
def charge(
    dataset: Annotated[str, typer.Argument(help="The dataset's name in the ledger.")],
    what: Annotated[str, typer.Option(help="What the other tool is asked, in words.")],
    epsilon: Annotated[float | None, typer.Option(help="The price's ε, with --delta.")] = None,
    delta: Annotated[float, typer.Option(help="δ of the price; of --rdp and --event, the part that is cut.")] = 0.0,
    rho: Annotated[float | None, typer.Option(help="The price's ρ (zCDP).")] = None,
    rdp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Rényi curve: JSON with orders and costs.")
    ] = None,
    event: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A dp_accounting event: JSON with class_name and its fields."),
    ] = None,
    tool: Annotated[str, typer.Option(help="The tool that runs, and its version.")] = "",
    name: Annotated[str, typer.Option("--id", help="Your name for this spend; it is charged once.")] = "",
    already_happened: Annotated[
        bool, typer.Option("--already-happened", help="Record it even beyond the cap.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Book a spend of another tool before it runs. The price is as you declare it; nothing is refunded."""
    from dpbo_core.ledger.outside_spends import Budget

    curve = None if rdp is None else _json_of(rdp)
    parsed, moves = (None, None) if event is None else read_event(event)
    spend = Budget(dataset, own_ledger().url).charge(
        what=what,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        renyi=curve,
        event=parsed,
        replaced_moves=moves,
        name=name,
        tool=tool,
        already_happened=already_happened,
    )
    if json:
        more = {"id": spend.name, "replayed": spend.replayed, "overdrawn": spend.overdrawn}
        print_json(spend.receipt.to_json() | more)
        return
    (account,) = accounts_here(dataset)
    done = "was booked before, and nothing was charged now" if spend.replayed else "booked"
    print_sentence(f"{what} ({spend.name}): {done}. {spend.receipt.guarantee.in_words()}")
    if spend.overdrawn:
        print_sentence(f"{dataset} is overdrawn: no more spends are admitted.")
    print_sentence(account_line(account))


def read_event(file: Path) -> tuple[Any, float | None]:
    """Read a `dp_accounting` event from a JSON file, and its `replaced_moves` if the file has them."""
    from dpbo_core.theorems.events import event_from_json

    document = _json_of(file)
    moves = document.pop("replaced_moves", None) if isinstance(document, dict) else None
    try:
        return event_from_json(document), moves
    except ValueError as error:
        raise StudyInvalid(
            f"{str(file)!r} is no event that dpbo can price: {error}",
            remedy='write it like {"class_name": "GaussianDpEvent", "noise_multiplier": 2.0}',
        ) from None


def _json_of(file: Path) -> Any:
    try:
        return loads("\n".join(lines_of(file)))
    except (ValueError, RecursionError):
        raise StudyInvalid(f"{str(file)!r} is no JSON", remedy="correct the file") from None


def _source(text: str) -> Source:
    """Return the source that a word names: "memory", a bundled set, an address, URL#table, or else a file's
    path.
    """
    from dpbo_core.data.bundled import SETS
    from dpbo_core.study.named_sources import named_source

    return named_source(text, [*SETS])


@budget_app.command()
def export() -> None:
    """Print the ledger's history as JSON lines. Keep it where nobody who can change the ledger has access."""
    stores = _stores()
    sys.stdout.write("".join(f"{line}\n" for line in audit.export(stores.ledger)))


@budget_app.command()
def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An export that this ledger must continue.")
    ] = None,
    accept_restored: Annotated[
        bool,
        typer.Option(
            "--accept-restored",
            help="Continue with a restored, older ledger; you are responsible for what it lost.",
        ),
    ] = False,
) -> None:
    """Check that the ledger's entries were not changed, removed, added or replaced by an older copy."""
    copy = () if file is None else audit.read_export(lines_of(file))
    stores = _stores()
    added = recovery.accept(stores.ledger, copy) if accept_restored else None
    last = audit.verify(stores.ledger, () if accept_restored else copy)
    entries = "1 entry" if last.sequence == 1 else f"{last.sequence} entries"
    accepted = "" if added is None else f"Accepted, and written into the history. {_added(added) if copy else ''} "
    print_sentence(f"{accepted}The ledger is whole: {entries}, the last sealed {last.hash[:16]}.")


@budget_app.command()
def recover(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export of this ledger, or of another.")],
) -> None:
    """Restore entries that an export has and the ledger lost. Each restored study counts as spent."""
    copy, stores = audit.read_export(lines_of(file)), _stores()
    print_sentence(_added(recovery.recover(stores.ledger, copy)))


def _added(added: recovery.Recovered) -> str:
    if added == recovery.Recovered():
        return "The ledger has everything that the export has; nothing was added."
    summary = f"{added.charges} lost charges were added, with {added.draws} draws and {added.releases} releases."
    if added.smaller_caps:
        names = ", ".join(sorted(set(added.smaller_caps)))
        summary += f" There were two caps of {names}; the smaller holds now, or no more is admitted."
    return f"{summary} They count as spent: dpbo budget shows what is left."


def _stores() -> Stores:
    stores = Stores()
    stores.make_folder()
    return stores


@budget_app.command()
def status(json: AsJson = False) -> None:
    """Show which runs are active, which ran last and what is left. Opens no data and changes nothing."""
    alive, accounts = n_alive(Stores().running), accounts_here()
    entries = [(account.budget.dataset, entry) for account in accounts for entry in account.entries]
    entries.sort(key=lambda item: item[1].released_at or item[1].reserved_at, reverse=True)
    last = entries[:N_RUNS_SHOWN]
    if not json:
        print_status(alive, accounts, last)
        return
    keys = ("study", "edition", "method", "reserved_at", "released_at")
    rows = [{"dataset": dataset} | {key: getattr(entry, key) for key in keys} for dataset, entry in last]
    left = ("name", "public", "limit", "spent", "remaining")
    accounts_left = [{key: account_json(account)[key] for key in left} for account in accounts]
    print_json({"alive_here": alive, "last": rows, "left": accounts_left})


def print_status(alive: int, accounts: tuple[DatasetAccount, ...], last: list[tuple[str, Entry]]) -> None:
    """Print how many runs are alive here, what ran last and the budgets left."""
    screen = Screen()
    here = f"{alive} on this machine" if alive else "nothing on this machine"
    screen.say(f"[bold]Runs[/]: {here}; Prefect's page shows those of other machines, and what is due.")
    if not accounts:
        screen.say("Nothing was charged here yet: dpbo tune --example, or dpbo init for your own two files.")
        return
    screen.say("\n[bold]Ran last[/]")
    rows = []
    for dataset, entry in last:
        what = f"{_time_in_words(entry)}: {named(entry.method)} on {named(dataset)}"
        what += f", {DECLARED_STANDING}" * entry.declared
        rows.append((f"{named(entry.study)}:{named(entry.edition)}", what))
    screen.facts(rows)
    screen.say("\n[bold]Left[/]")
    for account in accounts:
        screen.say(f"  {named(account_line(account))}")
    screen.say("\ndpbo show STUDY:EDITION prints a release; dpbo budget has every entry; dpbo ui the pages.")


def _time_in_words(entry: Entry) -> str:
    moment = (entry.released_at or entry.reserved_at)[:16].replace("T", " ")
    if entry.released_at is not None:
        return f"released {moment}"
    if rounds_text(entry):
        return f"open since {moment}, {rounds_text(entry)}"
    return f"charged {moment}, not released (at work, or to be run again)"
