"""How records' outcomes become one number for a candidate: one file a way, with its sensitivity and unit."""
