"""The ledger's schema, step by step; a new ledger takes every step, an old one those it has not taken."""
