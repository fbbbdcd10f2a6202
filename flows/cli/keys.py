"""`dpbo keys`: the owner's key pair, by which strangers tell who released what."""

from enum import StrEnum
from typing import Annotated

import typer

from dpbo.flows.cli.terminal import print_sentence
from dpbo.flows.cli.words import reason_of
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo_core.errors import StudyInvalid


class Word(StrEnum):
    """What can be done with keys."""

    NEW = "new"


def keys(word: Annotated[Word, typer.Argument(help="new: make a key pair, once.")]) -> None:
    """Make the key that signs every release from now on; nothing is charged, and no data is opened."""
    from dpbo.tasks.reporting.receipt import new_key

    Stores().make_folder()
    try:
        private, public, name = new_key()
    except OSError as error:
        reason = reason_of(error)
    else:
        print_sentence(f"{private} signs, and is for you alone; {public} verifies: publish it. Key {name}.")
        return
    raise StudyInvalid(f"the key cannot be written ({reason})", remedy="set DPBO_SIGNING_KEY to another place")
