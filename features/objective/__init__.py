"""A budget of private scores for anybody's search: each asked once, in any order, all at one price (MATH §7.1)."""

KIND = "objective"  # in the ledger's column of methods
