"""Gaussian processes over a finite candidate set: kernels, posterior, likelihood. They know nothing of privacy."""

DEFAULT_N_STEPS = 20  # of a search whose study does not say
