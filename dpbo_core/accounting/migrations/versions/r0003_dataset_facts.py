"""What a dataset's rules need to know, in one table that grows; a key's mark on each entry; no amount below 0.

From what a ledger already holds it derives k of every dataset with a budget, as its releases say it (several, where
they differ: the largest then holds), and how each published table's rows were answered.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from dpbo_core.accounting.history import ORIGIN, canonical, seal
from dpbo_core.accounting.migrations.triggers import make_append_only, refuse_negative

revision = "0003"
down_revision = "0002"

Fact = tuple[str, str, str, dict[str, Any]]


def upgrade() -> None:
    """Make it, and fill it with what the ledger's own rows say."""
    facts = op.create_table(
        "dataset_facts",
        sa.Column("dataset", sa.String(200), sa.ForeignKey("datasets.name"), primary_key=True),
        sa.Column("about", sa.String(64), primary_key=True),
        sa.Column("item", sa.String(512), primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
        sa.Column("written_at", sa.String(32), nullable=False),
    )
    make_append_only("dataset_facts")
    op.add_column("history", sa.Column("mac", sa.String(96), nullable=True))
    refuse_negative("datasets", "epsilon_units", "delta_units")
    refuse_negative("reservations", "epsilon_units", "delta_units", "rho_units")
    connection = op.get_bind()
    history = sa.Table("history", sa.MetaData(), autoload_with=connection)
    newest = sa.select(history.c.sequence, history.c.hash).order_by(history.c.sequence.desc()).limit(1)
    found = connection.execute(newest).one_or_none()
    sequence, last = (0, ORIGIN) if found is None else (found.sequence, found.hash)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for dataset, about, item, value in _told(connection):
        row = {"dataset": dataset, "about": about, "item": item, "value": value, "written_at": now}
        connection.execute(facts.insert().values(**row))
        sequence, content = sequence + 1, canonical(row)
        last = seal(last, sequence, "dataset_facts", content)
        entry = {"sequence": sequence, "about": "dataset_facts", "content": content, "hash": last}
        connection.execute(history.insert().values(**entry))


def _told(connection: sa.Connection) -> Iterator[Fact]:
    """What the rows say, each fact once."""
    query = sa.text(
        "SELECT r.dataset, r.study, r.edition, r.method, r.unit, r.fingerprint, e.release FROM reservations r "
        "JOIN datasets d ON d.name = r.dataset LEFT JOIN releases e ON e.reservation = r.id "
        "WHERE NOT d.public ORDER BY r.id"
    )
    rows = [(*row[:6], _release(row[6])) for row in connection.execute(query)]
    facts: dict[tuple[str, str, str], dict[str, Any]] = {}
    for dataset, _, _, method, unit, _, release in rows:
        alone = unit in ("training_record", "candidate_row")
        k = 1 if alone else _inner(release, "facts", "max_records_per_person")
        if unit != "person" and type(k) is int and k >= 1:
            facts.setdefault((dataset, "max_records_per_person", str(k)), {"derived": True})
        table = _inner(release, "value", "publication")
        span = _inner(release, "value", "range")
        if method == "outsourced" and isinstance(table, str) and isinstance(span, list) and len(span) == 2:
            price = {name: _inner(release, "guarantee", name) for name in ("epsilon", "delta")}
            facts.setdefault((dataset, "answers", table), {"low": span[0], "high": span[1], **price})
    for dataset, study, edition, method, _, _, release in rows:  # a private answer that was paid and not recorded
        if method == "outsourced" and study == f"{dataset}: answers" and not release:
            for other, title, version, _, _, fingerprint, _ in rows:
                if (other, title, version) == (dataset, f"{dataset}: table", edition):
                    facts.setdefault((dataset, "answers", fingerprint[:16]), {"public": False})
    for (dataset, about, item), value in facts.items():
        yield dataset, about, item, value


def _release(cell: Any) -> dict[str, Any]:
    """A release as a database gives it back, parsed or not; nothing if it cannot be read."""
    try:
        parsed = json.loads(cell) if isinstance(cell, str) else cell
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _inner(release: dict[str, Any], part: str, name: str) -> Any:
    inside = release.get(part)
    return inside.get(name) if isinstance(inside, dict) else None


def downgrade() -> None:
    """Never: a ledger only grows."""
    raise RuntimeError("a ledger is never taken back to an earlier schema")
