"""Text that people chose, as it is: neither mathtext in a picture nor markup on a page.

On the terminal `dpbo.flows.cli.terminal.named` does the same, on the certificate `html.escape`.
"""

import re
from collections.abc import Mapping

from dpbo_core.errors import printable

MARKDOWN_PATTERN = re.compile(
    r"([\\`*_{}\[\]()>#+.!~=|-])"
)  # what a backslash makes plain in every kind of Markdown
ENTITY_TABLE = str.maketrans(
    {mark: f"&#{ord(mark)};" for mark in "&<$@/"}
)  # of some kinds, of HTML, and of addresses


def in_picture(text: object) -> str:
    """Text escaped for matplotlib, which reads mathtext between two dollars."""
    return printable(str(text)).replace("$", r"\$")


def in_markdown(text: object) -> str:
    """Text escaped for a description or note that MLflow and Prefect render."""
    return MARKDOWN_PATTERN.sub(r"\\\1", printable(str(text))).translate(ENTITY_TABLE)


def embedded(picture: str, run_id: str) -> str:
    """Markdown that shows the file `picture` of a run's plots, on that run's page in MLflow."""
    return f"![{picture.removesuffix('.png')}](get-artifact?path=plots%2F{picture}&run_uuid={run_id})"


def point_in_short(point: Mapping[str, object]) -> str:
    """Return a point of a search in a few words: its hyperparameters, numbers to three digits. Not escaped."""
    texts = (f"{item:.3g}" if isinstance(item, float) else str(item) for item in point.values())
    return ", ".join(f"{name} = {text}" for name, text in zip(point, texts, strict=True))


def in_words(item: object) -> str:
    """Return a number to six digits; another value as text. Not escaped."""
    return f"{item:.6g}" if isinstance(item, float) else str(item)
