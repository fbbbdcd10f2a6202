"""The public half of the objective: losses, certified training, margin scores, any scikit-learn estimator."""
