"""One noised histogram of labels, public bins and groups, and the whole report that follows from it (MATH §6.3)."""

KIND = "evaluation"  # in the ledger's column of methods
THRESHOLD_METRICS = ("recall", "specificity", "precision", "f1", "accuracy", "flagged_share", "lift")
FOUR_COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
ACCURACY = "accuracy"
MULTICLASS_METRICS = (ACCURACY, "balanced_accuracy", "macro_f1", "cohen_kappa")  # of a report of several classes
