"""How the newest totals of any dataset are reached from the newest entry, each step sealed by the one before.

The entries are the nodes of a binary trie over SHA-256(dataset), newest first: an entry is its dataset's leaf, and
its `path` names, for each bit at which others part from it, the newest entry on the other side.

| symbol | name here | meaning |
|---|---|---|
| bit i | key of `path` | the first bit in which two datasets' hashes differ, 0 the highest |
| (n, h_n) | `Place` | an entry's number and its hash, so that no other can stand for it |
| — | `everything` | every dataset's totals at once: where a history of before there were totals is sealed |
| — | `base` | the entry that says `everything`, if it says anything |

From the newest entry to a dataset's newest totals are about log₂ of the number of datasets steps. Hiding an entry,
or showing an older one, changes a hash that the newest entry holds.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from dpbo_core.accounting.totals import Totals
from dpbo_core.accounting.writing import canonical

BITS = 256
Place = tuple[int, str]


@dataclass(frozen=True)
class Node:
    """What one entry says beside its row."""

    of: str
    totals: Totals
    path: Mapping[int, Place] = field(default_factory=dict)
    base: Place | None = None
    everything: Mapping[str, Totals] | None = None

    @property
    def filtered(self) -> bool:
        """Whether its totals know their filter: an older version's do not."""
        return self.totals.filter is not None

    def of_before(self) -> "Node":
        """As an older version would have it, which knew no filter."""
        everything = self.everything
        if everything is not None:
            everything = {name: replace(totals, filter=None) for name, totals in everything.items()}
        return replace(self, totals=replace(self.totals, filter=None), everything=everything)

    def text(self) -> str:
        """The node in the words that its seal is computed of."""
        told: dict[str, Any] = {"of": self.of, "totals": self.totals.to_json()}
        told["path"] = [[bit, *place] for bit, place in sorted(self.path.items())]
        if self.base is not None:
            told["base"] = list(self.base)
        if self.everything is not None:
            told["all"] = {name: totals.to_json() for name, totals in self.everything.items()}
        return canonical(told)

    @classmethod
    def from_text(cls, text: str) -> "Node":
        """The inverse of `text`.

        Raises:
            ValueError, LookupError, TypeError, AttributeError: it is none.
        """
        told = json.loads(text)
        path = {bit: (sequence, hashed) for bit, sequence, hashed in told["path"]}
        base = None if "base" not in told else (told["base"][0], told["base"][1])
        everything = None
        if "all" in told:
            everything = {name: Totals.from_json(totals) for name, totals in told["all"].items()}
        return cls(str(told["of"]), Totals.from_json(told["totals"]), path, base, everything)


@dataclass(frozen=True)
class Entry:
    """A node, and the entry that it is in."""

    place: Place
    node: Node


Fetch = Callable[[Place], Entry]


def reach(head: Entry, of: str, fetch: Fetch) -> tuple[Totals, dict[int, Place]]:
    """The newest totals of a dataset, and the path that its next entry carries.

    Args:
        head: the newest entry.
        of: the dataset.
        fetch: gives the entry at a place, and nothing else than what was sealed there.
    """
    path: dict[int, Place] = {}
    here, above = head, -1
    while True:
        bit = _parting(of, here.node.of)
        path |= {at: place for at, place in here.node.path.items() if above < at < bit}
        if bit == BITS:
            return here.node.totals, path
        path[bit] = here.place
        if bit not in here.node.path:
            break
        here, above = fetch(here.node.path[bit]), bit
    return _before(head, fetch).get(of, Totals()), path


def following(head: Entry, of: str, totals: Totals, path: Mapping[int, Place]) -> Node:
    """What the next entry says, once `reach` gave the path and the totals before it."""
    base = head.place if head.node.everything else head.node.base
    return Node(of, totals, path, base)


def _before(head: Entry, fetch: Fetch) -> Mapping[str, Totals]:
    """What was sealed at once of every dataset that has had no entry since."""
    if head.node.everything is None and head.node.base is not None:
        head = fetch(head.node.base)
    return head.node.everything or {}


def _parting(one: str, other: str) -> int:
    """The first bit in which the hashes of two datasets differ; BITS if they are the same."""
    return BITS - (_key(one) ^ _key(other)).bit_length()


@lru_cache(maxsize=1024)
def _key(of: str) -> int:
    return int.from_bytes(hashlib.sha256(of.encode()).digest())
