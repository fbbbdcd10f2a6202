"""What may come out of a study when a library call fails after its charge, and why no record brings it about.

By module, the longest name that fits. The outcomes are those of `failing`; `test_failures` holds the names to the
house, so that a room that is renamed or new is not without a rule.
"""

SEALED, RELEASE, PUBLIC = ("sealed",), ("release", "sealed"), ("public message", "release", "sealed")
NUMBERS = "a function of the plan's own numbers, which ran on the same numbers before the charge"
ROOMS = {  # by module, the longest name that fits: (what may come out, why no record brings it about)
    "accounting": (SEALED, "the ledger's rows, the database, the disk: as long whatever was drawn"),
    "privacy.atomically": (SEALED, "the disk: what is written is as long whatever it holds"),
    "bo": (SEALED, "arithmetic on arrays of public sizes"),
    "bo.adaptive_sampling": (
        ("release",), "a density that cannot be computed is the prior: any density in the box is as private"
    ),
    "data": (RELEASE, "readers are total; what is raised is about the file, checked before the charge"),
    "data.parquet_file": (PUBLIC, "a file that is no Parquet any more is named; its columns are total readers'"),
    "queries": (SEALED, "comparisons with public edges, and arithmetic on what was released, of public size"),
    "queries.objective_for_a_loop.submission": (
        RELEASE, "a public model handed in; a prediction that fails costs its own record alone, the constant"
    ),
    "gp": (SEALED, "arrays of public sizes and pivots of at least σ > 0"),
    "ledger": (SEALED, "the ledger's rows, the database, the disk: as long whatever was drawn"),
    "mechanisms": (
        RELEASE, "every kind of draw was made before the charge by a source that draws nothing; a failing trial is "
        "the worst trial, and counts; K's law can be drawn or the study is refused when planned"
    ),
    "methods": (RELEASE, "arithmetic on integer sums of public range; a failing trial is the worst, and counts"),
    "models": (
        PUBLIC, "public rows and public models; a prediction that fails costs its own record alone, the constant"
    ),
    "scoring": (RELEASE, "sums of integers; a broken record scores the constant; a part is lost by its file"),
    "privacy": (SEALED, NUMBERS),
    "privacy.sealing": (("as it is",), "the seal itself: what fails here held nothing yet, or nothing any more"),
    "private_training": (RELEASE, "every point of Λ was checked at the study's sizes before the charge"),
    "problem": (SEALED, NUMBERS),
    "sklearn_api": (RELEASE, "the public half; what cannot be predicted scores the constant"),
    "space": (SEALED, NUMBERS),
    "study_file": (SEALED, NUMBERS),
    "preparation": (SEALED, "files and sizes, as checked before the charge; records are behind total readers"),
    "preparation.trained_models": (RELEASE, "a public model that cannot be kept is trained again"),
    "theorems": (RELEASE, NUMBERS),
}  # fmt: skip
UNREACHED = {  # between the charge and the release, or all of it public
    "advice", "errors", "final_model",
}  # fmt: skip


def allowed(site):
    """What may come out of a failure at `site`, module:function:call; KeyError where nobody said it yet."""
    return ROOMS[max((name for name in ROOMS if site.startswith((f"{name}.", f"{name}:"))), key=len)][0]
