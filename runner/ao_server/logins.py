"""The logins of browsers: an empty file each in a folder of the home, so a login outlives the server and can end.

Servers that share the home share the logins. The name of a file tells neither the cookie nor the token.
"""

import hmac
import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from ao_server.who import Who

LOGIN_SECONDS: Final = 30 * 24 * 3600
_COOKIE_BYTES: Final = 32


class Logins:
    """The logins below a folder, which only its user can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, key: str) -> str:
        """Return the cookie of a new login with the key of a token, and forget the logins that are too old."""
        for path in self._folder.iterdir():
            if not _is_young(path):
                path.unlink(missing_ok=True)
        cookie = secrets.token_urlsafe(_COOKIE_BYTES)
        self._path(cookie, key).touch(0o600)
        return cookie

    def whose(self, cookie: str, keys: Mapping[Who, str]) -> Who | None:
        """Return whose token it is with which a login began; None if there is no such login."""
        return next((who for who, key in keys.items() if _is_young(self._path(cookie, key))), None)

    def end(self, cookie: str, keys: Mapping[Who, str]) -> None:
        """End a login."""
        for key in keys.values():
            self._path(cookie, key).unlink(missing_ok=True)

    def _path(self, cookie: str, key: str) -> Path:
        return self._folder / hmac.new(key.encode(), cookie.encode(), sha256).hexdigest()


def _is_young(path: Path) -> bool:
    try:
        return path.stat().st_mtime > time.time() - LOGIN_SECONDS
    except OSError:
        return False
