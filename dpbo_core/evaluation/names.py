"""Names of figures, for whoever shows a report and counts nothing."""

AT_THRESHOLD = ("recall", "specificity", "precision", "f1", "accuracy", "flagged_share", "lift")
RANKED = (
    "auc",
    "balanced_accuracy",
    "accuracy",
)  # of all more is better; models are compared by the first
