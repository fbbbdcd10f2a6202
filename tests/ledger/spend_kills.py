"""Named spends of other tools, killed before every statement and commit of their booking, and asked again."""

import os
import signal
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa

from dpbo_core.errors import AlreadySpent
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.outside_spends import Budget

EACH_UNITS = 10**10  # ε = 0.01 of every spend, in 10⁻¹²


@dataclass
class Tally:
    """What a campaign counted; the last three must be zero."""

    kills: int = 0
    booked: int = 0
    ran: int = 0
    lost_or_double: int = 0
    ran_unpaid_or_again: int = 0
    wrong_totals: int = 0

    @property
    def clean(self):
        return self.lost_or_double == self.ran_unpaid_or_again == self.wrong_totals == 0


def killed_at(statement, work):
    """Do `work` in a child that is killed just before its n-th statement; True if it lived to the end."""
    child = os.fork()
    if child == 0:
        seen = []

        def count(*_):
            seen.append(1)
            if len(seen) == statement:
                os.kill(os.getpid(), signal.SIGKILL)

        sa.event.listen(sa.Engine, "before_cursor_execute", count)
        sa.event.listen(sa.Engine, "commit", count)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def enter(name, url, ran):
    """Enter the block of a named spend, which notes that it ran."""
    with Budget("clinic", url).spending(epsilon=0.01, what="counts", name=name):
        ran.write_text(ran.read_text() + f"{name}\n")


def asked_again(name, url):
    """Whether the block of this spend may run once more."""
    try:
        with Budget("clinic", url).spending(epsilon=0.01, what="counts", name=name):
            return True
    except AlreadySpent:
        return False


def campaign(url, ran, *, stride=1, rounds=1, kills=0):
    """Kill at every `stride`-th place of so many bookings at least, and until so many were killed; the tally."""
    PrivacyLedger(url).set_budget(PrivacyBudget.of("clinic", epsilon=50.0, delta=1e-5))

    def editions():
        (account,) = PrivacyLedger(url).accounts("clinic")
        return account, [entry.edition for entry in account.entries]

    ran.write_text("")
    tally, statement, finished = Tally(), 0, 0
    while finished < rounds or tally.kills < kills:
        statement += stride
        name = f"kill-{finished}-{statement}"
        if killed_at(statement, partial(enter, name, url, ran)):
            statement, finished = 0, finished + 1
        else:
            tally.kills += 1
        runs, booked = ran.read_text().split().count(name), editions()[1].count(name)
        again = asked_again(name, url)
        tally.booked, tally.ran = tally.booked + booked, tally.ran + runs
        tally.lost_or_double += booked > 1 or editions()[1].count(name) != 1
        tally.ran_unpaid_or_again += runs > booked or again == bool(booked)
    account, names = editions()
    tally.wrong_totals = int(account.spent.epsilon_units != EACH_UNITS * len(names))
    return tally
