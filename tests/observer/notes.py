"""What an observer writes down: by channel and key, the texts that were seen, or the largest number.

A text's numbers stand beside it, each under a key of its own, so that a counter is compared as a number.
"""

from collections import defaultdict
from typing import Any

from observer.text import parted, plain


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
