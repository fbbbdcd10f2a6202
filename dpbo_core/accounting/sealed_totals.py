"""Before anything is charged: what admission is going to use is what the history sealed.

The totals that the newest entry of a dataset carries are reached from the newest entry of all (`nodes`), and
compared with those of the tables. So a raised cap, a spend that was made smaller, however old, a row that was put
in or taken out, are refused before a study is admitted. What is not looked at here `dpbo budget verify` finds: what
no admission uses, such as a recorded release, and which files are other datasets'.
"""

import sqlalchemy as sa

from dpbo_core.accounting.accounts import CAP
from dpbo_core.accounting.composition import Total
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.pen import Pen
from dpbo_core.accounting.tables import RESERVATIONS
from dpbo_core.accounting.totals import Totals, cap_in, hashed
from dpbo_core.privacy.unit import PrivacyUnit

NEWEST = 8  # entries whose chain is looked at before a charge
TOLD = {
    "cap": "the cap",
    "charges": "the number of charges",
    "spent": "what is spent",
    "units": "the units",
    "first": "the first guarantee",
    "facts": "what its owner approved",
}

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
CHARGES = sa.select(sa.func.count()).where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
FIRST = (
    sa.select(RESERVATIONS.c.guarantee)
    .where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
    .order_by(RESERVATIONS.c.id)
    .limit(1)
)


@legible()
def check(pen: Pen, dataset: str, spent: Total, units: frozenset[PrivacyUnit]) -> None:
    """Return if the tables say of the dataset what the history sealed.

    The filter follows from the rows' draws and is sealed alone: `dpbo budget verify` works it out again.

    Args:
        pen: of the transaction that will charge.
        dataset: whose cap pays.
        spent: as the tables have it.
        units: as the tables have them.

    Raises:
        LedgerDamaged: they do not.
    """
    pen.check_newest(NEWEST)
    sealed = pen.totals_of(dataset)
    asked = {"dataset": dataset}
    cap = pen.connection.execute(CAP, asked).one_or_none()
    first = pen.connection.scalar(FIRST, asked)
    found = Totals(
        cap=None if cap is None else cap_in(cap._asdict()),
        charges=int(pen.connection.scalar(CHARGES, asked) or 0),
        spent=spent,
        units=frozenset(unit.value for unit in units),
        first=None if first is None else hashed(first),
        facts=pen.facts_hash(dataset),
        filter=sealed.filter,
    )
    if found != sealed:
        others = [told for name, told in TOLD.items() if getattr(found, name) != getattr(sealed, name)]
        raise pen.differs(f"{' and '.join(others)} of dataset {dataset!r} is not what its history sealed")
