"""The vocabulary of promises: who is protected, against whom, at what price, on whose word."""
