"""How far a search is, for whoever waits: public facts and what was released, on the standard error.

The number of steps is the method's public number: one where it hides how many trials there were. In a notebook and
in a terminal one line is written again and again, elsewhere one after the other.
"""

import sys
from dataclasses import dataclass

from dpbo_core.methods.contract import Released


@dataclass
class Progress:
    """Says nothing unless it is to.

    Attributes:
        loud: whether anything is said.
        n_steps: how many steps there will be; public.
        width: of what was written last, to be written over.
    """

    loud: bool
    n_steps: int = 1
    width: int = 0

    def say(self, text: str) -> None:
        """One line, over the last one where that can be."""
        if not self.loud:
            return
        if not over():
            sys.stderr.write(f"{text}\n")
            return
        sys.stderr.write(f"\r{text.ljust(self.width)}")
        self.width = len(text)
        sys.stderr.flush()

    def step(self, step: int, released: Released | None) -> None:
        """That a step is done, and the private score that it released if it did."""
        score = None if released is None else released.get("score")
        told = "" if score is None else f", private score {score:.4g}"
        self.say(f"step {step} of {self.n_steps}{told}")

    def done(self, text: str) -> None:
        """The last line of all, after which the cursor stands on a new one."""
        self.say(text)
        if self.loud and over():
            sys.stderr.write("\n")


def over() -> bool:
    """Whether a line can be written over: a terminal, or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
