"""The `dpbo` command: its words, what they do, and its screens."""

from flows.cli.app import main

__all__ = ["main"]
