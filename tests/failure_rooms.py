"""What may come out of a study when a library call fails after its charge, and why no record brings it about.

By module, the longest name that fits. The outcomes are those of `failing`; `test_failures` holds the names to the
house, so that a room that is renamed or new is not without a rule.
"""

from of_features import merged

SEALED, RELEASE, PUBLIC = ("sealed",), ("release", "sealed"), ("public message", "release", "sealed")
NUMBERS = "a function of the plan's own numbers, which ran on the same numbers before the charge"
ROOMS = {  # by module, the longest name that fits: (what may come out, why no record brings it about)
    "privacy": (SEALED, NUMBERS),
    "privacy.atomically": (SEALED, "the disk: what is written is as long whatever it holds"),
    "privacy.sensitive": (("as it is",), "the seal itself: what fails here held nothing yet, or nothing any more"),
    "theorems": (RELEASE, NUMBERS),
    "data": (RELEASE, "readers are total; what is raised is about the file, checked before the charge"),
    "data.parquet_file": (PUBLIC, "a file that is no Parquet any more is named; its columns are total readers'"),
    "search": (SEALED, "arithmetic on arrays of public sizes, with pivots of at least σ > 0"),
    "search.adaptive_sampling": (
        ("release",), "a density that cannot be computed is the prior: any density in the box is as private"
    ),
    "models": (
        PUBLIC, "public rows and public models; a prediction that fails costs its own record alone, the constant"
    ),
    "models.scoring": (
        RELEASE, "sums of integers; a broken record scores the constant; a part is lost by its file"
    ),
    "mechanisms": (
        RELEASE, "every kind of draw was made before the charge by a source that draws nothing; a failing trial is "
        "the worst trial, and counts; K's law can be drawn or the study is refused when planned"
    ),
    "ledger": (SEALED, "the ledger's rows, the database, the disk: as long whatever was drawn"),
    "methods": (RELEASE, "arithmetic on integer sums of public range; a failing trial is the worst, and counts"),
    "study": (SEALED, "files and sizes, as checked before the charge; records are behind total readers"),
    "study.trained_models": (RELEASE, "a public model that cannot be kept is trained again"),
    "study.tuning": (SEALED, "comparisons with public numbers, and arithmetic on what was released"),
    "report": (SEALED, "comparisons with public edges, and arithmetic on what was released, of public size"),
    "sklearn_api": (RELEASE, "the public half; what cannot be predicted scores the constant"),
    **merged("FAILURE_ROOMS"),
}  # fmt: skip
UNREACHED = {"errors"}  # between the charge and the release, or all of it public


def allowed(site):
    """What may come out of a failure at `site`, module:function:call; KeyError where nobody said it yet."""
    return ROOMS[max((name for name in ROOMS if site.startswith((f"{name}.", f"{name}:"))), key=len)][0]
