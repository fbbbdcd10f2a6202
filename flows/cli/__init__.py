"""The `dpbo` command: its words, what they do, and its screens."""
