"""A logistic regression of diffprivlib, as a trial's process imports it; its noise is the operating system's."""

from diffprivlib import BudgetAccountant
from diffprivlib.models import LogisticRegression

DATA_NORM = 8.0  # public: 64 pixels between 0 and 1


class Line:
    """Predicts whether a digit is odd. The fitted estimator holds more than its ε covers, such as `n_iter_`."""

    def __init__(self, weights, intercept):
        self.weights, self.intercept = weights, intercept

    def predict(self, X):
        return (X @ self.weights + self.intercept > 0).astype(int)


def train(params, data, trial):
    X, y = data
    accountant = BudgetAccountant()
    model = LogisticRegression(epsilon=trial.epsilon, data_norm=DATA_NORM, accountant=accountant, **params)
    model.fit(X, y % 2)
    trial.spent(accountant)
    return Line(model.coef_[0], float(model.intercept_[0]))


def odd_or_even(model, record):
    X, y = record
    return float(model.predict(X)[0] == y[0] % 2)
