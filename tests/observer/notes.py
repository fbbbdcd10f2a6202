"""What an observer writes down: by channel and key, the texts that were seen, or the largest number.

A text is written down without what is random and public (ids, times, ports, process numbers), and its numbers stand
beside it, each under a key of its own, so that a counter is compared as a number. What is replaced is not compared:
so each pattern is narrow, a name that is random by construction.
"""

import hashlib
import re
from collections import defaultdict
from typing import Any

PATTERNS: tuple[tuple[str, str], ...] = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<id>"),
    (r"\b(?=[0-9]*[a-f])[0-9a-f]{15,}\b", "<hex>"),
    (r"\b(\d+:\d+:)?1[789]\d{11,17}\b", "<time>"),
    (r"(?<=sem\.)(?!joblib)[A-Za-z0-9]{6}\b", "<random>"),
    (r"(?<=sem\.mp)-\w{8}", "-<random>"),
    (r"(?<=sem\.joblib)-\d+-\w{8}", "-<random>"),
    (r"(?<=etilqs_)[0-9a-f]+", "<random>"),
    (r"(?<=/)(\.[\w. -]+?)-[a-z0-9_]{8}(?=[ /\n]|$)", r"\1-<random>"),
    (r"(?<=/tmp/)[a-z0-9_]{8}\b", "<random>"),
    (r"(?<=/tmp/spill-)\d+", "<pid>"),
    (r"(?<=--fd )\d+ --port \d+", "<file> --port <port>"),
    (
        r"\b(reserve the budget|search on public data|search step|draw the release|show the release"
        r"|train[a-z ]*|work[a-z ]*|[a-z-]+ candidates?)-[0-9a-f]{3}\b",
        r"\1-<id>",
    ),
    (r'("(?:total|estimated)_run_time": )[\d.e-]+', r"\1<duration>"),
    (r'\{"input_type": "task_run", "id": "<id>"\}(, )?', ""),  # Prefect takes one address for another's
    (r"2026\\-\d\d\\-\d\dT\d\d\\:\d\d\\:\d\dZ", "<time>"),
    (r"(?<=run )[0-9a-f]{8}\b", "<id>"),
    (r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|UTC|[+-]\d{2}:?\d{2}))?", "<time>"),
    (r"\w{3}, \d{1,2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT", "<time>"),
    (r"\d{4}-\d{2}-\d{2}", "<date>"),
    (r"\d{2}:\d{2}:\d{2}[.,]\d+", "<time>"),
    (r"((?:127\.0\.0\.1|localhost|\[::1\]|0\.0\.0\.0)):\d{2,5}", r"\1:<port>"),
    (r"(?<=/)(tmp|pytest-)[A-Za-z0-9_]{8}\b", "<random>"),
)
_COMPILED = tuple((re.compile(pattern), name) for pattern, name in PATTERNS)
_NUMBER = re.compile(r"(?<![A-Za-z_])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


_PICTURE = re.compile(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+")
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def plain(text: str) -> str:
    """`text` without what is random and public; a picture in it by its digest, without digits."""
    text = _PICTURE.sub(lambda found: hashlib.sha256(found[0].encode()).hexdigest()[:12].translate(_LETTERS), text)
    for pattern, name in _COMPILED:
        text = pattern.sub(name, text)
    return text


def parted(text: str) -> tuple[str, list[float]]:
    """Its shape, in which every number is a #, and the numbers in their order."""
    return _NUMBER.sub("#", text), [float(found) for found in _NUMBER.findall(text)]


class Notes:
    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._numbers: dict[tuple[str, str], float] = {}

    def text(self, channel: str, key: str, text: str) -> None:
        """One text that was seen there; its numbers too."""
        shape, numbers = parted(plain(text))
        self._texts[channel, key].add(shape)
        for place, number in enumerate(numbers[:400]):
            self.number(channel, f"{key} #{place}", number)

    def word(self, channel: str, key: str, text: str) -> None:
        """One text that was seen there, digits and all."""
        self._texts[channel, key].add(plain(text))

    def number(self, channel: str, key: str, number: float) -> None:
        """The largest is kept."""
        where = channel, key
        self._numbers[where] = max(number, self._numbers.get(where, number))

    def count(self, channel: str, key: str) -> None:
        """One more of these."""
        self._numbers[channel, key] = self._numbers.get((channel, key), 0.0) + 1.0

    def plainly(self) -> dict[str, dict[str, Any]]:
        """For JSON: {channel: {key: texts or number}}."""
        told: dict[str, dict[str, Any]] = defaultdict(dict)
        for (channel, key), texts in self._texts.items():
            told[channel][key] = sorted(texts)
        for (channel, key), number in self._numbers.items():
            told[channel][key] = number
        return dict(told)
