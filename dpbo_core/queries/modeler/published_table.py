"""The published table as a file: Parquet with the columns z0 … z{r−1}, and in its footer what a reader must know.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `rows` | the image of the candidates, in the published order | (n, r) float64 |
| τ | `noise_scale` | standard deviation of the noise in each entry; 0 for the published transform | scalar ≥ 0 |
"""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

_FOOTER = b"dpbo"


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Z, the name of its publication, its noise, and the guarantee in JSON. All of it public."""

    rows: NDArray[np.float64]
    publication: str
    noise_scale: float
    guarantee: Mapping[str, Any]


def table_bytes(table: PublishedTable) -> bytes:
    """The published table as the bytes of its Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    footer = {"publication": table.publication, "noise_scale": table.noise_scale, "promise": table.guarantee}
    columns = {f"z{j}": np.ascontiguousarray(column) for j, column in enumerate(table.rows.T)}
    arrow = pa.table(columns).replace_schema_metadata({_FOOTER: json.dumps(footer, allow_nan=False)})
    file = io.BytesIO()
    pq.write_table(arrow, file)
    return file.getvalue()


def content_digest(content: bytes) -> str:
    """SHA-256 of a file's bytes, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_published(path: Path) -> tuple[PublishedTable, str]:
    """The table in a file, and the file's digest.

    Raises:
        StudyInvalid: missing, damaged, or not a table that a curator published.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({(error.strerror or 'no reason given').lower()})"
    else:
        table = _parse_table(content)
        if table is not None:
            return table, content_digest(content)
        problem = "is not a table that dpbo curate publish wrote"
    raise StudyInvalid(
        f"{str(path)!r} {problem}",
        cause="it was cut short, rewritten by another program, or is another file",
        remedy="ask the curator for the file as it was published",
    )


def _parse_table(content: bytes) -> PublishedTable | None:
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(io.BytesIO(content))
        footer = json.loads(arrow.schema.metadata[_FOOTER])
        wanted = [f"z{j}" for j in range(arrow.num_columns)]
        rows = np.column_stack([arrow.column(name).to_numpy() for name in wanted]).astype(np.float64, copy=False)
        table = PublishedTable(rows, footer["publication"], float(footer["noise_scale"]), dict(footer["promise"]))
        named = isinstance(table.publication, str) and bytes.fromhex(table.publication).hex() == table.publication
        whole = arrow.column_names == wanted and rows.size > 0 and bool(np.isfinite(rows).all())
    except Exception:  # noqa: BLE001  a damaged file fails in many ways
        return None
    sound = whole and named and len(table.publication) == 16 and 0.0 <= table.noise_scale < math.inf
    return table if sound else None
