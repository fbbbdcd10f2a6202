"""Tables: total readers, the public preprocessing, and the bundled sets. Whatever the bytes, m records."""

from dpbo_core.data import bundled
from dpbo_core.data.files import read_header, read_table
from dpbo_core.data.header import Header, check_columns, check_record_count
from dpbo_core.data.preprocessing import Preprocessing
from dpbo_core.data.table import Encoded, Table, fingerprint, table_of

__all__ = [
    "Encoded",
    "Header",
    "Preprocessing",
    "Table",
    "bundled",
    "check_columns",
    "check_record_count",
    "fingerprint",
    "read_header",
    "read_table",
    "table_of",
]
