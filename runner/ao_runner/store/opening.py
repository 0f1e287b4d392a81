"""Open the store that a user names: the file of this host, or a database of many hosts."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote_to_bytes

from ao_protocol.addresses import Address
from ao_runner.errors import RunnerError
from ao_runner.store.store import Store

LOCAL = "local"
_SCHEMES: Final = frozenset({"postgresql", "postgres"})
_PARAMETERS: Final = re.compile(r"(?:[a-z_]+=[^=&]*(?:&|$))*")


class NoSuchStore(RunnerError):
    """The address of a store is neither `local` nor the valid URL of a supported server. Its text may be secret."""

    def __str__(self) -> str:
        return (
            "--store or AO_STORE is no address of a store; expected `local` or postgresql://user@host/database, with"
            " parameters of libpq. In a user, a password and the value of a parameter write / ? # @ % & = and blanks as"
            " %2F %3F %23 %40 %25 %26 %3D %20. The address is not shown, because it may contain a password"
        )


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store is: the folder of this host, and the URL of a server, or `local` for a file in that folder."""

    home: Path
    url: str = LOCAL

    def __post_init__(self) -> None:
        """Raise `NoSuchStore` for an address that is not valid."""
        if not self.is_local:
            _parsed(self.url)

    @property
    def name(self) -> str:
        """The name of the store in messages and for folders, without user and password."""
        if self.is_local:
            return LOCAL
        address = _parsed(self.url)
        (host,) = parse_qs(address.query).get("host", [address.hosts])[-1:]
        return f"postgresql://{host}{address.path}"

    @property
    def is_local(self) -> bool:
        """Whether the store is a file of this host."""
        return self.url == LOCAL

    def open(self, busy_seconds: float | None = None) -> Store:
        """Open the store; a `with` block closes it.

        Args:
            busy_seconds: How long a call waits for other writers of the file, or a query for a server that restarts;
                None means 30.

        Raises:
            StoreUnusable: The store cannot be opened, or was made by another version of this program.
            StoreUnwritable: The store must be created or changed, and cannot be written now.
        """
        if self.is_local:
            from ao_runner.store.sqlite_store import SqliteStore

            return SqliteStore(self.home) if busy_seconds is None else SqliteStore(self.home, busy_seconds)
        from ao_runner.store.postgres_store import PATIENCE_SECONDS, PostgresStore

        patience_seconds = PATIENCE_SECONDS if busy_seconds is None else busy_seconds
        return PostgresStore(self.home, self.url, self.name, patience_seconds)


def _parsed(url: str) -> Address:
    address = Address.parse(url)
    if address is None or address.scheme not in _SCHEMES or "#" in url or not _PARAMETERS.fullmatch(address.query):
        raise NoSuchStore
    try:
        unquote_to_bytes(url).decode()
    except UnicodeError:
        raise NoSuchStore from None
    return address
