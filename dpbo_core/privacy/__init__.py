"""The vocabulary of guarantees: who is protected, against whom, at what price, on whose word."""
