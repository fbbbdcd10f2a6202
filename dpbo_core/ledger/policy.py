"""The owner's policy: whose file is charged to whom, who may open a cap, and how much one study may ask for.

Pure rules on values that were read from the ledger in the transaction that reserves. The owner is whoever sits at
the command or the notebook. A run that Prefect started is somebody's who may start runs, and may only do what the
owner did before: it opens no cap, adds no file, and asks for no more than the cap's largest ε.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dpbo_core.errors import PolicyRefused, StudyInvalid
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.sources import Division, Source, covers, same_records
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.guarantee import PrivacyGuarantee

UNCOMPARED = ("memory", "bundled")  # no name says whose records they are; everybody has them
LONGEST = 512  # characters of a path


@dataclass(frozen=True)
class Dataset:
    """A dataset by the name that studies give it.

    Attributes:
        name: of the study's [privacy].
        account: the dataset whose cap pays; another one than `name` for a member of a group.
    """

    name: str
    account: str


@dataclass(frozen=True)
class Approved:
    """A source that the owner recorded.

    Attributes:
        account: the dataset whose cap pays.
        dataset: the name that studies give; another one than `account` for a member of a group.
        source: where its records come from.
        shared: whether the owner said that others pay for the same records too.
    """

    account: str
    dataset: str
    source: Source
    shared: bool = False

    def is_of(self, dataset: Dataset) -> bool:
        """Whether it was recorded for this very dataset, and for no other member of its group."""
        return (self.dataset, self.account) == (dataset.name, dataset.account)


def is_new(source: Source, approved: Sequence[Approved], dataset: Dataset, *, caller: Caller, public: bool) -> bool:
    """Whether the source is to be recorded for the dataset; False if it is its own already.

    Args:
        source: of a study.
        approved: every source in the ledger.
        dataset: the study's.
        caller: who asks.
        public: whether the dataset was declared public.

    Raises:
        PolicyRefused: it is another dataset's, another one than before, or not the owner asks.
    """
    own = [item.source for item in approved if item.is_of(dataset)]
    if any(same_records(source, other) for other in own):
        return False
    check_unshared(source, approved, dataset)
    if caller is not Caller.OWNER:
        raise PolicyRefused(
            f"dataset {dataset.name!r} may not be scored on {source}",
            cause="its owner did not allow it, and a run that Prefect started cannot",
            remedy=f"its owner runs the study once, or: {_allow(dataset, source)}",
        )
    earlier = next((other for other in own if other.role == source.role), None)
    if earlier is not None and not public:
        raise _another_source(dataset, source, earlier)
    return True


def check_unshared(source: Source, approved: Sequence[Approved], dataset: Dataset) -> None:
    """One real source belongs to one dataset, unless the owner says that its people pay both.

    Raises:
        PolicyRefused: it is another dataset's.
    """
    other = next((item.dataset for item in sharing(source, approved, dataset)), None)
    if other is not None:
        raise PolicyRefused(
            f"{source} is scored as dataset {other!r}, and this study calls it {dataset.name!r}",
            cause="a second name for the same records would be a second budget for the same people",
            remedy=f"say dataset = {other!r}; or, if its people are to pay both: "
            f"{_allow(dataset, source)} --shared",
        )


def sharing(source: Source, approved: Sequence[Approved], dataset: Dataset) -> tuple[Approved, ...]:
    """The sources of other accounts that are the same records."""
    if source.kind in UNCOMPARED:
        return ()
    return tuple(item for item in approved if item.account != dataset.account and same_records(source, item.source))


def check_own(source: Source, approved: Sequence[Approved], dataset: Dataset) -> None:
    """A study that goes on is scored on the source that it began with.

    Raises:
        PolicyRefused: the dataset has sources of this role, and this is none of them.
    """
    own = [item.source for item in approved if item.is_of(dataset) and item.source.role == source.role]
    if own and not any(same_records(source, other) for other in own):
        raise _another_source(dataset, source, own[0])


def _another_source(dataset: Dataset, source: Source, earlier: Source) -> PolicyRefused:
    return PolicyRefused(
        f"dataset {dataset.name!r} is scored on {earlier}, and this study's {source.role} are {source}",
        cause="the study names another file than before, and whose people they are nobody said",
        remedy=f"if they are the same group of people: {_allow(dataset, source)}; otherwise another dataset name",
    )


def check_public(source: Source, approved: Sequence[Approved], published: Sequence[Approved]) -> None:
    """No source that anybody reads as public is a dataset's: its values could be printed and released.

    Args:
        source: that a study would read as public.
        approved: every sensitive source in the ledger.
        published: every file that an owner said is public.

    Raises:
        PolicyRefused: it is one's, whose owner did not publish it.
    """
    for item in approved:
        if same_records(source, item.source) and not is_published(source, published, account=item.account):
            raise PolicyRefused(
                f"{source} is what dataset {item.dataset!r} is scored on, and would be read as public",
                cause="data.training and data.validation were exchanged, or somebody asked for another's records",
                remedy="name the public file; if its records are public after all, their owner says so: "
                f"dpbo budget publish {item.dataset} {source}",
            )


def check_never_public(
    source: Source, read: Sequence[Approved], published: Sequence[Approved], dataset: Dataset
) -> None:
    """A source that is charged for was never read as public: models and caches may hold it, which no ε protects.

    Args:
        source: that a study is charged for.
        read: every file that a study read as public.
        published: every file that an owner said is public.
        dataset: the study's.

    Raises:
        PolicyRefused: it was read so, and the dataset's owner did not publish it.
    """
    if source.kind in UNCOMPARED or is_published(source, published, account=dataset.account):
        return
    reader = next((item.dataset for item in read if same_records(source, item.source)), None)
    if reader is not None:
        raise PolicyRefused(
            f"{source} was read as public by a study of dataset {reader!r}, and would be protected now",
            cause="data.training and data.validation were exchanged; models that were trained on it may hold it",
            remedy="name another file; or say that its records are public: "
            f"dpbo budget publish {dataset.name} {source}, which every later release of the dataset lists",
        )


def is_published(source: Source, published: Sequence[Approved], *, account: str) -> bool:
    """Whether the owner of the account said that these very records are public, all of them."""
    return any(item.account == account and covers(item.source, source) for item in published)


def check_division(share: float, n_rows: int | None, earlier: Sequence[Division], *, dataset: str) -> None:
    """One table that is divided by position keeps its share, and only grows, at its end.

    Args:
        share: of the study.
        n_rows: of the study's table; None before it is read.
        earlier: of every study of the dataset before.
        dataset: the study's.

    Raises:
        PolicyRefused: it is another share, or the table has fewer rows: what was protected would be public, or was.
    """
    other = next((division.share for division in earlier if division.share != share), None)
    if other is not None:
        raise PolicyRefused(
            f"dataset {dataset!r} is divided with validation_size = {other:g}, and this study says {share:g}",
            cause="with another share rows change sides: those of a smaller one's public half were protected, and "
            "those that a larger one protects were public",
            remedy=f"say validation_size = {other:g}",
        )
    most = max((division.n_rows for division in earlier), default=0)
    if n_rows is not None and n_rows < most:
        raise PolicyRefused(
            f"dataset {dataset!r} was divided as a table of {most} rows, and this one has {n_rows}",
            cause="a row's position says whether it is protected, and where rows were deleted it may be public now",
            remedy="give the whole table in its order, new rows at its end; or two tables, divided as in the first "
            "study by its validation_rows_",
        )


def score_path(text: str) -> str:
    """The import path of a score function as studies write it, "package.module.function".

    Args:
        text: that, or "package.module:function".

    Raises:
        StudyInvalid: it is no such path.
    """
    path = text.replace(":", ".")
    names = path.split(".")
    if len(names) < 2 or len(path) > LONGEST or not all(name.isidentifier() and name[0] != "_" for name in names):
        raise StudyInvalid(
            f"{text!r} is not the import path of a function",
            cause="a package, a dot and a name are needed, and no name may start with an underscore",
            remedy='write it like "ourpackage.scores.utility"',
        )
    return path


def unallowed_score(path: str, dataset: str, key: str = "score") -> PolicyRefused:
    """The message for a study that names a score or another function which the dataset's owner did not allow."""
    return PolicyRefused(
        f"the {key} {path!r} is a function that the owner of dataset {dataset!r} did not allow",
        cause="a study names it, and it would run beside the records",
        remedy=f"if you answer for it: dpbo budget allow {dataset} --score {path}; in Python give the function",
    )


def check_largest(dataset: str, largest: int | None, guarantees: Sequence[PrivacyGuarantee]) -> None:
    """A run that Prefect started asks for no more, all in all, than the owner said one may.

    Args:
        dataset: whose cap pays.
        largest: ε in 10⁻¹², or None where the owner said nothing.
        guarantees: of the study, and of what is reserved together with it.

    Raises:
        PolicyRefused: it asks for more.
    """
    epsilon = sum(guarantee.epsilon for guarantee in guarantees)
    if largest is not None and (
        not epsilon < float("inf") or sum(spent_units(guarantee.epsilon) for guarantee in guarantees) > largest
    ):
        together = " with what is reserved beside it" if len(guarantees) > 1 else ""
        raise PolicyRefused(
            f"this study asks for ε = {epsilon:g}{together}, and one of dataset {dataset!r} that Prefect starts "
            f"may ask for {from_units(largest):g}",
            cause="its owner set --largest-epsilon",
            remedy="ask for less in [privacy], or let its owner run it",
        )


def _allow(dataset: Dataset, source: Source) -> str:
    return f"dpbo budget allow {dataset.name} {'memory' if source.kind == 'memory' else source.name}"
