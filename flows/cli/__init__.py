"""The `dpbo` command: its words, what they do, and its screens."""

from dpbo.flows.cli.app import main

__all__ = ["main"]
