"""Open the store that a user names: the file of this host, or a database of many hosts."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from ao_runner.errors import RunnerError
from ao_runner.store.store import Store

LOCAL = "local"
SCHEMES = ("postgresql://", "postgres://")


@dataclass(eq=False)
class NoSuchStore(RunnerError):
    """A name of a store is neither `local` nor the URL of a supported server."""

    name: str

    def __str__(self) -> str:
        return f"--store or AO_STORE is {self.name!r}; expected `local` or postgresql://user@host/database"


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store is: the folder of this host, and the URL of a server, or `local` for a file in that folder."""

    home: Path
    url: str = LOCAL

    def __post_init__(self) -> None:
        """Raise `NoSuchStore` for an unknown scheme."""
        if not self.is_local and not self.url.startswith(SCHEMES):
            raise NoSuchStore(self.url)

    @property
    def name(self) -> str:
        """The name of the store in messages and for folders, without user and password."""
        if self.is_local:
            return LOCAL
        parts = urlsplit(self.url)
        (host,) = parse_qs(parts.query).get("host", [parts.netloc.rpartition("@")[2]])[-1:]
        return f"postgresql://{host}{parts.path}"

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
