"""How a server may misbehave."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["refuse_connection", "answer", "never_answer", "lose_answer"]


@dataclass(frozen=True)
class Fault:
    """What happens to a request, and whether it is carried out nevertheless."""

    kind: Kind
    status: int = 200
    body: bytes = b""
    headers: tuple[str, ...] = ()


DOWN = Fault("refuse_connection")
"""The connection closes before anything was carried out."""
HALF_OPEN = Fault("never_answer")
"""The request is taken and nobody ever answers."""
ANSWER_LOST = Fault("lose_answer")
"""It is carried out, and the connection closes instead of an answer."""
PROXY_PAGE = Fault("answer", 200, b"<html><body>Please log in</body></html>")
BROKEN = Fault("answer", 500, b'{"detail":"database is locked"}')


def busy(retry_after_seconds: float) -> Fault:
    """Too many requests."""
    return Fault("answer", 429, b'{"detail":"slow down"}', (f"Retry-After: {retry_after_seconds:g}",))


def refusing(status: int, detail: str) -> Fault:
    """The coordinator's own refusal."""
    return Fault("answer", status, b'{"detail":"%s"}' % detail.encode())
