"""Notifications of a PostgreSQL server, which wake waiting processes, and the check that they arrive."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg

from ao_protocol.addresses import without_credentials
from ao_runner.store.ownership import LOOK_SECONDS, Wakeup

CHANNEL: Final = "ao_store"
PROBE_CHANNEL: Final = "ao_probe"
PROBE_SECONDS: Final = 5.0
"""How long the check waits for its notification, which a server delivers within milliseconds."""
CONNECT_SECONDS: Final = 10
UNANSWERED_SECONDS: Final = 10
"""How long sent data may stay unacknowledged before the connection counts as broken."""
POLLING: Final = (
    "no notifications arrive from the server: {reason}. This process looks for runs, orders and cancellations every"
    f" {LOOK_SECONDS:g} s instead, so an idle worker begins a run 867 ms after its submission in the median; with"
    " notifications it is 27 ms. Set AO_STORE_DIRECT to the address of the server itself"
)


@asynccontextmanager
async def listening(url: str, tell: Callable[[str], None]) -> AsyncIterator[Wakeup]:
    """Yield a wakeup that notifications trigger, and tell once if none arrive.

    The connection is one of its own: to `AO_STORE_DIRECT` if `AO_STORE` is that of a pooler.
    """
    wakeup, direct = Wakeup(), direct_url(url)

    async def check() -> None:
        if (reason := await missing_notifications(url, direct)) is not None:
            tell(POLLING.format(reason=reason))

    tasks = [asyncio.create_task(_listen(direct, wakeup)), asyncio.create_task(check())]
    try:
        yield wakeup
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):  # a fault, and not the end of the block
                raise outcome


def direct_url(url: str) -> str:
    """Return the address for notifications of the store at `url`."""
    return os.environ.get("AO_STORE_DIRECT") or url


async def missing_notifications(url: str, direct: str) -> str | None:
    """Return why notifications that are sent at `url` do not arrive at `direct`; None if they do.

    A notification is sent and awaited: a pooler in transaction mode accepts LISTEN, and so does another database. None
    also where the store itself cannot be reached, which all other calls report.
    """
    token = secrets.token_hex(8)
    try:
        async with _connection(direct) as listener:
            await listener.execute(f"LISTEN {PROBE_CHANNEL}")
            with suppress(psycopg.Error):
                async with _connection(url) as sender:
                    await sender.execute("SELECT pg_notify(%s, %s)", (PROBE_CHANNEL, token))
                async for notification in listener.notifies(timeout=PROBE_SECONDS):
                    if notification.payload == token:
                        return None
                if direct == url:
                    return "AO_STORE is probably the address of a pooler, such as pgbouncer in transaction mode"
                return "AO_STORE_DIRECT is probably the address of a pooler, or of another database"
    except psycopg.Error as error:
        if direct == url:
            return None
        return f"listening failed: {without_credentials(' '.join(str(error).split()))}"
    return None


async def _listen(url: str, wakeup: Wakeup) -> None:
    """Trigger the wakeup at each notification. If the connection is lost, waiting tasks poll until it is back."""
    while True:
        with suppress(psycopg.Error):
            async with _connection(url) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                wakeup.notify()  # something may have come before
                async for _ in connection.notifies():
                    wakeup.notify()
        await asyncio.sleep(1)


@asynccontextmanager
async def _connection(url: str) -> "AsyncIterator[psycopg.AsyncConnection[tuple[Any, ...]]]":
    """Yield a connection, and close it at once: its own block would roll back first, and lose it if cancelled then."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None, **settings_of(url))
    try:
        yield connection
    finally:
        await connection.close()


def settings_of(url: str) -> dict[str, Any]:
    """Return the settings of each connection that the URL does not set itself."""
    settings = {
        "application_name": "ao",
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": UNANSWERED_SECONDS,
        "tcp_user_timeout": UNANSWERED_SECONDS * 1000,
    }
    return {name: value for name, value in settings.items() if f"{name}=" not in url}
