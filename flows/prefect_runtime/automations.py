"""Three automations of Prefect's, for whoever must know at once: a budget nearly spent, a run refused, an alarm.

Each waits for an event of ours and calls a webhook, or sends a message by a notification block that was saved in
Prefect (mail, Slack, Teams, …). What they send was released, or says what a budget has left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.events.actions import CallWebhook, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr

from dpbo.flows.prefect_runtime.prefect_page import ALARM, NEARLY_SPENT, RUN_REFUSED
from dpbo_core.errors import StudyInvalid

BLOCK = "dpbo-alerts"  # the webhook's address is kept in this block, which Prefect encrypts
NAME = "{{ event.resource.name }}"


@dataclass(frozen=True)
class Alert:
    """An event that an automation waits for, what the automation is called, and what it says (a template)."""

    event: str
    name: str
    says: str


ALERTS = (
    Alert(
        NEARLY_SPENT,
        "dpbo: a budget is nearly spent",
        f"dataset {NAME}: epsilon {{{{ event.payload.spent }}}} of {{{{ event.payload.limit }}}} is spent",
    ),
    Alert(
        RUN_REFUSED,
        "dpbo: a run was refused",
        f"study {NAME}, edition {{{{ event.payload.edition }}}}: refused, and nothing was charged",
    ),
    Alert(
        ALARM,
        "dpbo: a watch raised the alarm",
        f"study {NAME}, look {{{{ event.payload.look }}}}: its score has fallen by about "
        "{{ event.payload.drop }}, or it is a false alarm",
    ),
)


def to_webhook(url: str) -> UUID:
    """Save `url` in Prefect's block for alerts, replacing an earlier one; returns the block's id.

    Raises:
        StudyInvalid: it is no address of a web server.
    """
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise StudyInvalid("--webhook is no address", remedy="give one that begins with https:// or http://")
    block: Any = Webhook(url=SecretStr(url))
    return UUID(str(block.save(BLOCK, overwrite=True)))


def to_block(slug: str) -> UUID:
    """The id of a notification block saved in Prefect.

    Args:
        slug: TYPE/NAME, as `prefect block ls` has it: "sendgrid-email/clinic", say.

    Raises:
        StudyInvalid: there is none.
    """
    kind, _, name = slug.partition("/")
    try:
        with get_client(sync_client=True) as client:
            return client.read_block_document_by_name(name, kind, include_secrets=False).id
    except ObjectNotFound:
        pass
    raise StudyInvalid(
        f"Prefect has no block {slug!r}",
        cause="it was not saved yet, or on another server",
        remedy="make one on Prefect's page, under Blocks; prefect block ls names them as TYPE/NAME",
    )


def put_alerts(block: UUID, action: Callable[[Alert, UUID], CallWebhook | SendNotification]) -> tuple[str, ...]:
    """Create the automations of ALERTS, replacing those of the same names; returns the names.

    Args:
        block: where they send to.
        action: makes the action of one, a webhook's call or a notification.
    """
    with get_client(sync_client=True) as client:
        for alert in ALERTS:
            automation = AutomationCore(
                name=alert.name,
                description="Made by dpbo alerts. What it sends was released, or says what a budget has left.",
                enabled=True,
                trigger=EventTrigger(expect={alert.event}, posture=Posture.Reactive, threshold=1),
                actions=[action(alert, block)],
            )
            existing = client.read_automations_by_name(alert.name)
            if existing:
                client.update_automation(existing[0].id, automation)
            else:
                client.create_automation(automation)
    return tuple(alert.name for alert in ALERTS)


def notification(alert: Alert, block: UUID) -> SendNotification:
    """The notification that an alert's automation sends by `block`."""
    return SendNotification(block_document_id=block, subject=alert.name, body=alert.says)


def webhook_call(alert: Alert, block: UUID) -> CallWebhook:
    """The call of the webhook in `block` that an alert's automation makes."""
    payload = (
        f"{{% set says %}}{alert.says}{{% endset %}}"
        '{"text": {{ says | string | tojson }}, "event": {{ event.event | tojson }}, '
        '"name": {{ event.resource.name | tojson }}, "payload": {{ event.payload | tojson }}}'
    )
    return CallWebhook(block_document_id=block, payload=payload)
