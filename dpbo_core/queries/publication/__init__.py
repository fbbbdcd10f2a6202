"""The curator's side of an outsourced search: a table published once, and one answer a row."""
