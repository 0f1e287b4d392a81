"""Who asks: the role of the sender of a request, and a name if the sender has one."""

from contextvars import ContextVar
from typing import Final, Literal, NamedTuple

Role = Literal["reader", "client", "worker"]
_NAMELESS: Final = "a client of ao serve"


class Who(NamedTuple):
    """The sender of a request."""

    role: Role
    name: str = ""
    """That of the token, or what a proxy says; empty for the three tokens without a name."""
    is_of_proxy: bool = False
    """Whether a header of a proxy is the login, which cannot end here."""


sender: ContextVar[Who | None] = ContextVar("sender", default=None)
"""The sender of the request that is being answered, also where a tool of MCP asks the API for it."""


def name_of_sender() -> str:
    """Return the name of the sender; empty without one."""
    who = sender.get()
    return "" if who is None else who.name


def answerer() -> str:
    """Return who is said to have answered a request of a run."""
    return name_of_sender() or _NAMELESS
