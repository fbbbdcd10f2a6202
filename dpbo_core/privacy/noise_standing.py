"""Where the noise of a release came from, as the ledger and the release write it."""

OPERATING_SYSTEM = "operating_system"
INJECTED = "injected"  # by a test, or to reproduce a paper: it guarantees nothing
