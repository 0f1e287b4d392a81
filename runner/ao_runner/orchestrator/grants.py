"""Which session a token speaks for. Neither HTTP nor processes are known here."""

import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final

TOKEN_BYTES: Final = 32


class Grants:
    """Tokens of sessions.

    A session has the same token for as long as it has a run or a kept process here, because a kept process goes on with
    the connection that its first run made. Later it gets a new one.

    Args:
        is_kept: Tells whether a process waits for the next run of a session.
        new_token: Makes a token that nobody can guess.
    """

    def __init__(
        self,
        is_kept: Callable[[str], bool] = lambda _: False,
        new_token: Callable[[], str] = lambda: secrets.token_urlsafe(TOKEN_BYTES),
    ) -> None:
        self._is_kept = is_kept
        self._new_token = new_token
        self._runs: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._sessions: dict[bytes, str] = {}
        """By the digest of the token, so that the time of a look-up says nothing about a token."""

    def grant(self, run_id: str, session_id: str) -> str:
        """Return the token of a session, which is valid at least until the run is revoked."""
        self._forget_what_ended()
        self._runs[run_id] = session_id
        if session_id not in self._tokens:
            token = self._new_token()
            self._tokens[session_id] = token
            self._sessions[_digest(token)] = session_id
        return self._tokens[session_id]

    def revoke(self, run_id: str) -> None:
        """End a run. The token of its session stays while another run or a kept process needs it."""
        self._runs.pop(run_id, None)
        self._forget_what_ended()

    def session_of(self, token: str) -> str | None:
        """Return the session that a token speaks for now, or None."""
        session_id = self._sessions.get(_digest(token))
        return session_id if session_id is not None and self._is_live(session_id) else None

    def _is_live(self, session_id: str) -> bool:
        return session_id in self._runs.values() or self._is_kept(session_id)

    def _forget_what_ended(self) -> None:
        for session_id in [session_id for session_id in self._tokens if not self._is_live(session_id)]:
            del self._sessions[_digest(self._tokens.pop(session_id))]


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
