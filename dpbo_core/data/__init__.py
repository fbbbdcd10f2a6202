"""Tables: total readers, the public preprocessing, and the bundled sets. Whatever the bytes, m records.

Every name is imported on first use: a study file is read before any reader of tables is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo_core.data import bundled as bundled
    from dpbo_core.data.files import read_blocks as read_blocks
    from dpbo_core.data.files import read_header as read_header
    from dpbo_core.data.files import read_table as read_table
    from dpbo_core.data.header import Header as Header
    from dpbo_core.data.header import check_columns as check_columns
    from dpbo_core.data.header import check_record_count as check_record_count
    from dpbo_core.data.header import check_target as check_target
    from dpbo_core.data.preprocessing import Preprocessing as Preprocessing
    from dpbo_core.data.table import Encoded as Encoded
    from dpbo_core.data.table import Table as Table
    from dpbo_core.data.table import fingerprint as fingerprint
    from dpbo_core.data.table import table_of as table_of

_HOME = {
    "files": ("read_blocks", "read_header", "read_table"),
    "header": ("Header", "check_columns", "check_record_count", "check_target"),
    "preprocessing": ("Preprocessing",),
    "table": ("Encoded", "Table", "fingerprint", "table_of"),
}
__all__ = ["bundled", *(name for names in _HOME.values() for name in names)]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"dpbo_core.data.{module}"), name)
    if name == "bundled":
        return import_module("dpbo_core.data.bundled")
    raise AttributeError(f"module 'dpbo_core.data' has no attribute {name!r}")
