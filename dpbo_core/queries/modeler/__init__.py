"""The modeller's side of an outsourced search, and the files that the two parties exchange."""
