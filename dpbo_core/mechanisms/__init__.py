"""The only rooms where noise is drawn: one file a mechanism, one door in each."""
