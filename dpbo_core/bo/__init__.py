"""Bayesian optimisation over a finite candidate set, ask and tell. It knows nothing of privacy."""
