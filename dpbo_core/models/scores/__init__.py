"""How records are scored: bounded, larger is better, a whole number of steps."""
