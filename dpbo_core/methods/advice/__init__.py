"""Honest advice before spending, from public facts alone."""
