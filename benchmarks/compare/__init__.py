"""Every method beside its rivals, on public data alone: nothing here may ever see a sensitive record."""
