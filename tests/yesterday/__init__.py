"""A ledger as version 0.1.0 left it, with the studies and tables that belong to it; `make.py` wrote them."""
