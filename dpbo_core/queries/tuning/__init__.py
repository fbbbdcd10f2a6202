"""A study from its file to its release: resolved once, its split of the data, what is precomputed, its run."""
