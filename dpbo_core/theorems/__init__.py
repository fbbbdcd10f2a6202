"""One file per paper, in the paper's order: numbers in, numbers out; no data, no randomness."""
