"""One noised histogram of labels, public bins and groups, and the whole report that follows from it (MATH §6.3)."""

KIND = "evaluation"  # in the ledger's column of methods
