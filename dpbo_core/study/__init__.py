"""A study from its file to its release: its file, its two data halves, what is worked out ahead, its run."""
