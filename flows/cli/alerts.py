"""`dpbo alerts`: Prefect waits for our events and tells whoever must know at once, by a webhook or by mail."""

from typing import Annotated

import typer

from dpbo.flows.cli.terminal import print_sentence
from dpbo.flows.cli.words import Port, TrustServer
from dpbo.flows.prefect_runtime.prefect_store import create_prefect_store
from dpbo.flows.prefect_runtime.server import LoopbackServer
from dpbo.flows.prefect_runtime.settings import Stores, quiet_environment
from dpbo_core.errors import StudyInvalid


def alerts(
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="DPBO_ALERT_WEBHOOK",
            help="Called with a JSON object; its key text is a sentence, as chat programs take it.",
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE/NAME", help="A notification block saved in Prefect, for mail say: sendgrid-email/clinic."
        ),
    ] = None,
    port: Port = 4200,
    trust_server: TrustServer = False,
) -> None:
    """Have Prefect tell you of a budget nearly spent, a refused run, and an alarm of a watch."""
    names = put(webhook, block, port=port, trust=trust_server)
    does = "calls the webhook" if webhook else f"sends by {block}"
    print_sentence(f"Prefect {does} from now on, by the automations {', '.join(map(repr, names))}.")


def put(webhook: str | None, block: str | None, *, port: int, trust: bool) -> tuple[str, ...]:
    """Make the automations on the configured Prefect server, or on this machine's; returns their names.

    Raises:
        StudyInvalid: not exactly one place to tell it to, or one that is none.
        DpboError: no Prefect server answers, or one that asks nobody for a password.
    """
    if (webhook is None) == (block is None):
        raise StudyInvalid(
            "alerts go to one place", remedy="give --webhook URL, or --block TYPE/NAME of a block saved in Prefect"
        )
    quiet_environment()
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_URL,
        get_current_settings,
        temporary_settings,
    )

    from dpbo.flows.prefect_runtime.automations import (
        notification,
        put_alerts,
        to_block,
        to_webhook,
        webhook_call,
    )

    stores = Stores()
    stores.make_folder()
    create_prefect_store()
    home = get_current_settings().home
    with LoopbackServer(stores.running.parent, port=port, home=home, trust=trust) as server:
        password = {} if server.auth is None else {PREFECT_API_AUTH_STRING: server.auth}
        with temporary_settings({PREFECT_API_URL: server.api, **password}):
            if webhook is not None:
                return put_alerts(to_webhook(webhook), webhook_call)
            return put_alerts(to_block(block or ""), notification)
