"""Gaussian processes over a finite candidate set: kernels, posterior, likelihood. They know nothing of privacy."""

USUAL_STEPS = 20  # of a search whose study does not say
