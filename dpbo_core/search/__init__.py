"""Gaussian processes over a finite candidate set: kernels, posterior, likelihood. They know nothing of privacy."""
