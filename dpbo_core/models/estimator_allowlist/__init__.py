"""Classes whose prediction of a record is known to be a function of that record alone, and the look for others."""
