"""One noised histogram of labels, public bins and groups, and the whole report that follows from it (MATH §6.3)."""

KIND, COMPARISON = "evaluation", "comparison"  # in the ledger's column of methods
BETTER, WORSE, UNSURE = "better", "worse", "cannot tell"  # verdicts of a comparison
COMPARED = "difference"  # of a comparison's value, what it is about
THRESHOLD_METRICS = ("recall", "specificity", "precision", "f1", "accuracy", "flagged_share", "lift")
FOUR_COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
ACCURACY = "accuracy"
MULTICLASS_METRICS = (ACCURACY, "balanced_accuracy", "macro_f1", "cohen_kappa")  # of a report of several classes
