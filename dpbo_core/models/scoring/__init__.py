"""The sensitive half as exact integer sums: in memory, or part by part."""
