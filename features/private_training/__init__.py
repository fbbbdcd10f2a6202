"""Training that is itself private: one file, one algorithm, each with its own guarantee as a Rényi curve."""
