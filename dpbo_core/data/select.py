"""A query that cannot fail on a record, and makes each row of one record: columns of one table.

    SELECT {column, … | *} FROM [schema.]table [WHERE condition AND …] [ORDER BY column [ASC | DESC], …]
    condition: column {= | <> | < | <= | > | >=} {number | 'text'}, or column IS [NOT] NULL

Names are folded to lower case unless they stand in double quotes, as PostgreSQL does. What is sent is written anew
from what was read here; every column is asked for as its text, which every value has.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from dpbo_core.errors import StudyInvalid

TOKEN = re.compile(
    r"""\s*(?:(?P<name>[^\W\d]\w*|"(?:[^"\x00]|"")+")|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<text>'(?:[^'\\\x00]|'')*')|(?P<sign><=|>=|<>|!=|[=<>,.*]))"""
)
SIGNS = ("=", "<>", "!=", "<", "<=", ">", ">=")
WORDS = ("select", "from", "where", "order", "by", "and", "is", "not", "null", "asc", "desc")
PUBLIC = "public"  # the schema of a table without one
SHAPE = "SELECT age, sex, outcome FROM visits WHERE year = 2025 ORDER BY id"


@dataclass(frozen=True)
class Select:
    """What is asked of one table.

    Attributes:
        schema: of the table.
        table: its name.
        columns: in order; none for all.
        rest: its conditions and its order, as PostgreSQL reads them.
    """

    schema: str
    table: str
    columns: tuple[str, ...]
    rest: str = ""

    @property
    def conditional(self) -> bool:
        """Whether rows are chosen by what they hold: whoever writes the condition could count any group by it."""
        return self.rest.startswith(" WHERE ")

    @property
    def source(self) -> str:
        """FROM and what follows."""
        return f"FROM {quoted(self.schema)}.{quoted(self.table)}{self.rest}"

    def texts(self, columns: tuple[str, ...]) -> str:
        """The query for `columns`, each as its text."""
        return f"SELECT {', '.join(f'{quoted(name)}::text' for name in columns)} {self.source}"

    def names(self) -> str:
        """A query of the columns' names, without a row."""
        listed = ", ".join(map(quoted, self.columns)) or "*"
        return f"SELECT {listed} FROM {quoted(self.schema)}.{quoted(self.table)} LIMIT 0"  # noqa: S608  quoted

    def count(self) -> str:
        """A query of how many rows there are."""
        return f"SELECT count(*) FROM (SELECT {self.source}) AS selected"  # noqa: S608  as above


def quoted(name: str) -> str:
    """A name as PostgreSQL reads it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def select(query: str, *, shown_as: str) -> Select:
    """The query, read.

    Raises:
        StudyInvalid: it is of another shape.
    """
    return _Reader(query, shown_as).select()


class _Reader:
    """One query, from left to right."""

    def __init__(self, query: str, shown_as: str) -> None:
        self.shown_as, self.tokens, self.place = shown_as, list[tuple[str, str]](), 0
        at, query = 0, query.strip().removesuffix(";")
        while query[at:].strip():
            found = TOKEN.match(query, at)
            if found is None:
                self.refuse()
            self.tokens.append((str(found.lastgroup), found.group(str(found.lastgroup))))
            at = found.end()

    def select(self) -> Select:
        self.word("select")
        columns = () if self.taken("*") else self.listed()
        self.word("from")
        table = self.name()
        schema, table = (table, self.name()) if self.taken(".") else (PUBLIC, table)
        rest = ""
        if self.taken("where"):
            rest += f" WHERE {self.condition()}"
            while self.taken("and"):
                rest += f" AND {self.condition()}"
        if self.taken("order"):
            self.word("by")
            keys = [self.key()]
            while self.taken(","):
                keys.append(self.key())
            rest += f" ORDER BY {', '.join(keys)}"
        if self.place < len(self.tokens):
            self.refuse()
        return Select(schema, table, columns, rest)

    def listed(self) -> tuple[str, ...]:
        names = [self.name()]
        while self.taken(","):
            names.append(self.name())
        return tuple(names)

    def condition(self) -> str:
        column = quoted(self.name())
        if self.taken("is"):
            nothing = "IS NOT NULL" if self.taken("not") else "IS NULL"
            self.word("null")
            return f"{column} {nothing}"
        kind, sign = self.next()
        if kind != "sign" or sign not in SIGNS:
            self.refuse()
        kind, constant = self.next()
        if kind not in ("number", "text"):
            self.refuse()
        return f"{column} {sign} {constant}"

    def key(self) -> str:
        column = quoted(self.name())
        return f"{column} DESC" if self.taken("desc") else f"{column}{' ASC' if self.taken('asc') else ''}"

    def name(self) -> str:
        kind, text = self.next()
        if kind != "name" or text.lower() in WORDS:
            self.refuse()
        return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()

    def taken(self, word: str) -> bool:
        here = self.tokens[self.place][1].lower() if self.place < len(self.tokens) else ""
        self.place += here == word
        return here == word

    def word(self, word: str) -> None:
        if not self.taken(word):
            self.refuse()

    def next(self) -> tuple[str, str]:
        if self.place >= len(self.tokens):
            self.refuse()
        self.place += 1
        return self.tokens[self.place - 1]

    def refuse(self) -> NoReturn:
        raise StudyInvalid(
            f"the query of {self.shown_as} is not of columns of one table",
            cause="a cast, a function, a join or a subquery could fail on one record, or make a row of several",
            remedy=f"write it like {SHAPE}; what needs more is a view in the database, which its owner answers for",
        )
