"""Pictures and pages of a release, made from the `Release` alone."""
