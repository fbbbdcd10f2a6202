"""`dpbo plan` with several studies: their prices together, in their order, and which of them fit under the caps."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from dpbo.flows.cli.budget_words import read_event
from dpbo.flows.cli.running import feature_study, ledger_here
from dpbo.flows.terminal import Screen, named, print_result
from dpbo_core.errors import StudyInvalid, no_budget
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.ledger.outside_spends import Price as OutsidePrice
from dpbo_core.ledger.outside_spends import plan_of
from dpbo_core.report.study_price import price_of
from dpbo_core.study.editions import planned_if_scheduled
from dpbo_core.study.resolve import resolve
from dpbo_core.study.spec import read_study

COLUMN_NAMES = ("study", "dataset", "ε", "δ", "left afterwards", "")


def plan_together(files: Iterable[Path], event: Path | None) -> None:
    """Price studies, and an event on the first one's dataset, as if each were charged in turn. Charges nothing."""
    ledger, accounts, rows = ledger_here(), dict[str, Account](), list[tuple[str, str, Price]]()

    def add(name: str, dataset: str, price: Price) -> None:
        price = replace(price, account=accounts.get(dataset, price.account))
        rows.append((name, dataset, price))
        after = price.account_after()
        if after is not None:
            accounts[dataset] = after

    for file in files:
        if feature_study(file) is not None:
            raise StudyInvalid(f"{str(file)!r} has a [trial]", remedy="plan it alone: dpbo plan STUDY.toml")
        spec = planned_if_scheduled(read_study(file), file.parent)
        price = price_of(resolve(spec, file.parent), ledger)
        add(f"{spec.name}:{spec.edition}", spec.privacy.dataset, price)
    if event is not None:
        dataset = rows[0][1]
        account = accounts.get(dataset)
        if account is None:
            raise no_budget(dataset)
        parsed, moves = read_event(event)
        charged = plan_of(OutsidePrice(event=parsed, replaced_moves=moves), account)
        add(event.name, dataset, Price(account, {"event": charged}))

    def document() -> dict[str, Any]:
        studies = [
            {
                "study": name,
                "dataset": dataset,
                "price": price.to_json(),
                "fits": price.refusal is None,
                "refused": price.refusal and price.refusal.message(),
            }
            for name, dataset, price in rows
        ]
        return {"studies": studies, "fit": all(study["fits"] for study in studies)}

    def screen() -> None:
        table = [
            (
                named(name),
                named(dataset),
                f"{price.epsilon:g}",
                f"{price.delta:g}",
                "–" if price.left is None else f"{price.left:.3g}",
                "charged before" if price.paid else "fits" if price.refusal is None else "does not fit",
            )
            for name, dataset, price in rows
        ]
        Screen().table(COLUMN_NAMES, table, left=2)
        Screen().say("No sensitive record was read and nothing was charged.")

    print_result(document, screen)
    if any(price.refusal for _, _, price in rows):
        raise typer.Exit(3)
