"""Two dataset names that people would take for one are one dataset, or one file would have two budgets.

A name's skeleton is what is left of it for a reader: compatibility forms folded (NFKC), case folded, look-alike
letters of Cyrillic and Greek and the digits 0 and 1 taken for the Latin letters they look like, spaces, punctuation
and invisible characters dropped. Between two digits punctuation counts, so that 2026-1-11 is not 2026-11-1. It is a
short table and not all of Unicode's: a fancier alphabet is caught by the rule on files, which asks no name.
"""

import unicodedata
from collections.abc import Iterable

from dpbo_core.errors import PolicyRefused

LOOKS_LIKE = str.maketrans(
    {
        # Cyrillic: a e o p c y x i j s h d q w k m t b h r n b
        "\u0430": "a",
        "\u0435": "e",
        "\u043e": "o",
        "\u0440": "p",
        "\u0441": "c",
        "\u0443": "y",
        "\u0445": "x",
        "\u0456": "i",
        "\u0458": "j",
        "\u0455": "s",
        "\u04bb": "h",
        "\u0501": "d",
        "\u051b": "q",
        "\u051d": "w",
        "\u043a": "k",
        "\u043c": "m",
        "\u0442": "t",
        "\u0432": "b",
        "\u043d": "h",
        "\u0433": "r",
        "\u043f": "n",
        "\u044c": "b",
        # Greek: a b e n i k v o p t u x w c y
        "\u03b1": "a",
        "\u03b2": "b",
        "\u03b5": "e",
        "\u03b7": "n",
        "\u03b9": "i",
        "\u03ba": "k",
        "\u03bd": "v",
        "\u03bf": "o",
        "\u03c1": "p",
        "\u03c4": "t",
        "\u03c5": "u",
        "\u03c7": "x",
        "\u03c9": "w",
        "\u03f2": "c",
        "\u03b3": "y",
        # Latin without a dot, of phonetics
        "\u0131": "i",
        "\u0251": "a",
        "\u0261": "g",
        "\u029f": "l",
        # digits
        "0": "o",
        "1": "l",
    }
)


def skeleton(name: str) -> str:
    """What a reader takes the name for; the name itself where nothing would be left."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kept: list[str] = []
    for place, character in enumerate(folded):
        if unicodedata.category(character)[0] in "LNM":
            kept.append(character)
        elif 0 < place < len(folded) - 1 and folded[place - 1].isdigit() and folded[place + 1].isdigit():
            kept.append(".")
    return "".join(kept).translate(LOOKS_LIKE) or name


def check_new_name(name: str, others: Iterable[str]) -> None:
    """Return if no dataset has a name that looks like the new one.

    Args:
        name: of the dataset that is to be opened.
        others: every name that the ledger has.

    Raises:
        PolicyRefused: one does; both are in the message.
    """
    own = skeleton(name)
    twin = next((other for other in others if other != name and skeleton(other) == own), None)
    if twin is not None:
        raise PolicyRefused(
            f"dataset {name!r}{_spelt(name)} cannot be opened beside {twin!r}{_spelt(twin)}",
            cause="they differ in case, punctuation, spaces or letters that look alike, and the same people would "
            "get two budgets",
            remedy=f"write {twin!r}, or give other people a name that nobody can take for it",
        )


def _spelt(name: str) -> str:
    """The letters that are not of the English alphabet, by their names."""
    foreign = [unicodedata.name(character, "?").lower() for character in name if not character.isascii()]
    return f" (with {', '.join(foreign[:3])})" if foreign else ""
