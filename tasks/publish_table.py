"""Publish the curator's table."""

from pathlib import Path

from prefect import task

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.methods.outsourced.curator import Publication, Published, publish
from tasks import policies


@task(name="publish table", **policies.SENSITIVE_TASK)
def publish_table(
    publication: Publication, data: Path, out: Path, ledger_url: str, vaults: Path, *, owner: bool
) -> Published:
    """Reserve, draw, record, and only then write the table for the modeller; asked again, write the same one."""
    return publish(publication, data, out, ledger=PrivacyLedger(ledger_url), vaults=vaults, owner=owner)
