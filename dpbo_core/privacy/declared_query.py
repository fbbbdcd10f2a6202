"""Private queries that features add: what the core asks about each, by its name in the ledger."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.certified import CertificateRules
from dpbo_core.privacy.named_parts import NamedParts
from dpbo_core.privacy.release import Release


@dataclass(frozen=True)
class DeclaredQuery:
    """A kind of private query of a feature.

    Attributes:
        certificate_rules: what the certificate of one of its releases must show. Raises KeyError, TypeError,
            ValueError where the release is none of its kind.
        round_prefix: begins the name of each round that the ledger records before the release, for a query that
            has many rounds at one price; "" for a query that releases once.
        unreleased: what is said of a query of many rounds that goes on: why there is no release yet, the usual
            cause, what to do.
    """

    certificate_rules: Callable[[Release], CertificateRules]
    round_prefix: str = ""
    unreleased: tuple[str, str, str] = ("", "", "")

    def n_rounds(self, recorded: Iterable[str]) -> int:
        """Return how many rounds are among what the ledger recorded of a query."""
        return sum(name.startswith(self.round_prefix) for name in recorded)


QUERIES: Mapping[str, DeclaredQuery] = NamedParts(__name__, {}, group="dpbo.queries")


def rounds_of(kind: str) -> DeclaredQuery | None:
    """Return the declared query of this kind if it has many rounds at one price, else None."""
    query = QUERIES.get(kind)
    return query if query is not None and query.round_prefix else None


def check_sections(names: Iterable[str]) -> None:
    """Refuse a study that has a section of a feature's query, by name, where no installed feature answers it."""
    for name in names:
        if name not in QUERIES:
            raise StudyInvalid(
                f"the study has [{name}], and this installation has no such feature",
                cause="it was left out when dpbo was built",
                remedy=f"install dpbo whole, or remove [{name}]",
            )
