"""Tokens with names, in a file of the home that only its user can read. It contains a digest of each token.

A server reads the file again when it has changed, so a token can be added and removed while servers run.
"""

import hmac
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ao_runner.errors import RunnerError
from ao_runner.home import locked, private_folder
from ao_runner.store.records import timestamp
from ao_server.who import Role, Who

TOKEN_BYTES: Final = 32
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


class NamedToken(BaseModel):
    """A token: its role, and the digest by which it is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    created_at: str


_FILE: Final = TypeAdapter(dict[Annotated[str, Field(pattern=f"^{NAME.pattern}$")], NamedToken])


class NamedTokensUnusable(RunnerError):
    """The file cannot be used, or others can."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"cannot use the named tokens of {path}: {found}. Expected a file that only its user can read, as"
            " `ao serve token add` writes it. Mend it, or delete it and add the tokens again"
        )


class NameRefused(RunnerError):
    """A token cannot have this name, or no token has it."""


class NamedTokens:
    """The named tokens of a home."""

    def __init__(self, home: Path) -> None:
        self._path = private_folder(home, "server") / "named_tokens.json"
        self._known: Mapping[str, NamedToken] = {}
        self._seen: tuple[int, ...] | None = None

    def all(self) -> Mapping[str, NamedToken]:
        """Return the tokens by name.

        Raises:
            NamedTokensUnusable: The file cannot be read, others can read it, or its content is none of these.
        """
        try:
            found = self._path.stat()
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise NamedTokensUnusable(self._path, f"it cannot be read: {error.strerror}") from error
        if found.st_mode & 0o077:
            raise NamedTokensUnusable(self._path, f"its mode is {stat.S_IMODE(found.st_mode):04o}; run chmod 600")
        try:
            return _FILE.validate_json(content)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise NamedTokensUnusable(self._path, f"{where}: {first['msg']}") from error

    def current(self) -> Mapping[str, NamedToken]:
        """Return the tokens of the file, which is read if it has changed. One that is unusable lets in nobody."""
        try:
            found = self._path.stat()
            seen: tuple[int, ...] | None = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)
        except OSError:
            seen = None
        if seen != self._seen:
            self._seen, self._known = seen, {}
            try:
                self._known = self.all()
            except NamedTokensUnusable as error:
                sys.stderr.write(f"ao: {error}\n")
        return self._known

    def who_has(self, given: str) -> Who | None:
        """Return whose a token is. It is compared with all of them, in constant time."""
        digest, found = digest_of(given), None
        for name, token in self.current().items():
            if hmac.compare_digest(digest, token.sha256):
                found = Who(token.role, name)
        return found

    def add(self, name: str, role: Role) -> str:
        """Return a new token. Only its digest is kept.

        Raises:
            NameRefused: The name is taken, or it is no name.
        """
        if not NAME.fullmatch(name):
            told = "expected 1 to 64 letters, digits and . _ @ + -, the first a letter or digit"
            raise NameRefused(f"{name[:200]!r} cannot be the name of a token: {told}")
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with self._changed() as tokens:
            if name in tokens:
                raise NameRefused(f"a token has the name {name}: `ao serve token remove {name}` first, or another name")
            tokens[name] = NamedToken(role=role, sha256=digest_of(token), created_at=timestamp())
        return token

    def remove(self, name: str) -> None:
        """Remove a token: its requests and logins are refused from now on.

        Raises:
            NameRefused: No token has this name.
        """
        with self._changed() as tokens:
            if tokens.pop(name, None) is None:
                raise NameRefused(f"no token has the name {name[:200]!r}; `ao serve token list` tells which there are")

    @contextmanager
    def _changed(self) -> Iterator[dict[str, NamedToken]]:
        """Yield the tokens, and write them as a whole if the block does not raise."""
        with locked(self._path.parent) as is_mine:
            if not is_mine:
                raise RunnerError(f"another process changes the tokens in {self._path.parent}; try again")
            tokens = dict(self.all())
            yield tokens
            written = self._path.with_suffix(".new")
            written.unlink(missing_ok=True)
            with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump({name: token.model_dump() for name, token in tokens.items()}, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            written.replace(self._path)


def digest_of(token: str) -> str:
    """Return the digest of a token, which has 256 random bits."""
    return sha256(token.encode(errors="replace")).hexdigest()
