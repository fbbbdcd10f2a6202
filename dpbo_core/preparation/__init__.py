"""The public half of a study: its split of the data, its training set, what is trained ahead of any charge."""
