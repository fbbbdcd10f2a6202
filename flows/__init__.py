"""Flows that read as stories, the settings they run under, and the `dpbo` command."""
