"""What isolation adds to the suites that test all ways of scoring alike."""

# Library calls that are made to fail


def failing_studies(study):
    from failure_worlds import TREE

    return {
        "private_grid, one by one": study(
            model={"estimator": TREE, "score": "accuracy", "rowwise": "enforced"},
            space={"max_depth": {"values": [1]}},
        )
    }


def failing_evaluations(study):
    (asked,) = failing_studies(study).values()
    return {"evaluation, one by one": asked | {"evaluation": {"epsilon": 1.0}}}


FAILURE_ROOMS = {
    "features.isolation": (
        ("public message", "release", "sealed"),
        "public rows and public models; a prediction that fails costs its own record alone, the constant",
    ),
}

PICKLES = ["features/isolation/available.py", "features/isolation/child.py"]
