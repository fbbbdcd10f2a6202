"""Features: each folder can be deleted; the rest still installs, type-checks and passes its tests."""
