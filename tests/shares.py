"""How the files of tests are dealt out to several processes: each whole, and what takes long first.

A process takes the next share when it has done its own, so that the last ones must be short. The files that need
Prefect's server, which takes as long to start as fifty studies, are one share.
"""

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

SERVED = "with Prefect's server"
SERVERS = (
    "evaluate_flow", "flow", "objective_command", "operator", "pipeline", "policy_runs", "publishing",
    "serve",
)  # fmt: skip
LONG = (
    SERVED, "enforced", "enumerator", "evaluation", "persons", "private_objective", "replay", "docs", "watch",
    "ledger", "public_process", "hostile_records", "named_columns", "architecture", "one_pass", "workers", "audit",
    "submissions", "study", "ledger_tampering", "search_face", "estimator", "ledger_audit", "score_contract",
)  # fmt: skip


def share(nodeid):
    """The share that a test belongs to."""
    name = Path(nodeid.split("::")[0]).stem.removeprefix("test_")
    return SERVED if name in SERVERS else "architecture" if name == "words" else name  # one parses for the other


def place(nodeid):
    """Where a test's share stands; the tests of one keep their order."""
    name = share(nodeid)
    return LONG.index(name) if name in LONG else len(LONG)


class InShares(LoadScopeScheduling):
    """xdist's dealing of one scope after another, where a scope is a share."""

    def __init__(self, config, log=None):
        config.option.loadscopereorder = False  # as they stand, and not by how many tests there are in each
        super().__init__(config, log)

    def _split_scope(self, nodeid):
        return share(nodeid)
