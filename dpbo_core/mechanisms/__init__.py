"""The only rooms where noise is drawn: one file a mechanism, one place of drawing in each."""
