"""The face of scikit-learn: a search over tables in memory."""
