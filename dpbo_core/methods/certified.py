"""The certificate rules of every method, and what the printed noise of every mechanism is worth."""

from dpbo_core.mechanisms.mechanism_cost import WORTH_OF_MECHANISM
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.privacy.certified import Declared

CERTIFIED = Declared(
    {kind: cls.certificate_rules for kind, cls in {**EXCHANGES, **METHODS}.items()}, WORTH_OF_MECHANISM
)
