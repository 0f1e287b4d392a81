"""Sends events to webhooks, each at least once. A slow or dead receiver delays no other."""

import asyncio
import secrets
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

import httpx

from ao_protocol.events import InvalidEvent
from ao_runner.errors import RunnerError
from ao_runner.store.deliveries import AwaitedDelivery, Webhook
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import RowDamaged
from ao_server.joined_workers import tell
from ao_server.messages import message_to
from ao_server.receivers import ReceiverPolicy, ReceiverRefused, receiver_url, signed_headers
from ao_server.store_access import StoreAccess

AT_ONCE: Final = 4
"""Maximum number of requests to one receiver at a time."""
ANSWER_SECONDS: Final = 10
LEASE_SECONDS: Final = 2 * ANSWER_SECONDS
"""After this time another server, or this one after a restart, tries what a dead sender had begun."""
FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 3 * 3600.0
GIVEN_UP_AFTER: Final = timedelta(days=3)
LONGEST_REST_SECONDS: Final = 60.0
"""Pause between the tries of different deliveries to a receiver that is down."""


async def send_messages(access: StoreAccess, receivers: ReceiverPolicy) -> None:
    """Send what is due, until it is cancelled."""
    sending: dict[str, asyncio.Task[None]] = {}
    client: httpx.AsyncClient | None = None  # made late: it takes a twentieth of the start of a server
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)  # so that there is nothing to close
    async with asyncio.TaskGroup() as tasks:
        async for _ in access.rounds():
            with suppress(RunnerError):
                for webhook in await access.read(lambda store: store.webhooks.due(timestamp(store.now()))):
                    client = client or httpx.AsyncClient(
                        verify=ssl.create_default_context(), trust_env=False, timeout=ANSWER_SECONDS, limits=limits
                    )
                    if webhook.webhook_id not in sending or sending[webhook.webhook_id].done():
                        sender = _Sender(access, receivers, client, webhook)
                        sending[webhook.webhook_id] = tasks.create_task(sender.send_all())


@dataclass(frozen=True, slots=True)
class _Sender:
    """Sends what is due to one receiver."""

    access: StoreAccess
    receivers: ReceiverPolicy
    client: httpx.AsyncClient
    webhook: Webhook

    async def send_all(self) -> None:
        """Send until nothing is due. While all tries fail, it makes pauses between them, which become longer."""
        failures = 0
        with suppress(RunnerError):
            while due := await self.access.write_alone(self._claim):
                failures = 0 if any(await asyncio.gather(*map(self._send, due))) else failures + 1
                if failures:
                    await asyncio.sleep(min(2.0**failures, LONGEST_REST_SECONDS))

    def _claim(self, store: Store) -> list[AwaitedDelivery]:
        now = store.now()
        until = timestamp(now + timedelta(seconds=LEASE_SECONDS))
        with store.transaction():
            return store.webhooks.claim_messages(self.webhook.webhook_id, timestamp(now), until, AT_ONCE)

    async def _send(self, delivery: AwaitedDelivery) -> bool:
        """Try a delivery once, store what came of it, and return whether it succeeded."""
        of_webhook: Final = ("webhook", self.webhook.webhook_id, [delivery.run_id])
        with suppress(RunnerError):  # it is due again when its lease ends
            problem = await self._try(delivery.run_id)
            if problem is None:
                await self.access.write(partial(self._note_delivered, run_id=delivery.run_id))
                return True
            next_at = _next_try(delivery, await self.access.read(lambda store: store.now()))
            await self.access.write(lambda store: store.deliveries.put_off(*of_webhook, next_at, problem))
            if next_at is None:
                what = delivery.run_id if delivery.run_id.startswith("evt_") else f"the end of {delivery.run_id}"
                receiver = f"webhook {self.webhook.webhook_id}"
                tell(f"warning: {receiver} is not told of {what}: {problem!r}")
        return False

    def _note_delivered(self, store: Store, run_id: str) -> None:
        store.deliveries.end("webhook", self.webhook.webhook_id, [run_id])
        store.webhooks.note_delivered(self.webhook.webhook_id, timestamp(store.now()))

    async def _try(self, run_id: str) -> str | None:
        try:
            message = await self.access.read(lambda store: message_to(store, self.webhook, run_id))
        except (RowDamaged, InvalidEvent) as damaged:
            return str(damaged)
        return None if message is None else await self._post(*message)

    async def _post(self, message_id: str, body: bytes) -> str | None:
        """Send a message once, and return what was wrong, or None. An address that was not checked is not used."""
        url = receiver_url(self.webhook.url)
        headers = {
            "host": url.netloc.decode("ascii"),
            "content-type": "application/json",
            "user-agent": "ao-server",
            **signed_headers(self.webhook.secret, message_id, int(time.time()), body),
        }
        problem = ""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                for address in await self.receivers.addresses_of(url):
                    try:
                        return await self._answer(url.copy_with(host=address), headers, body, url.raw_host.decode())
                    except httpx.ConnectError as error:  # the next address may be reachable
                        problem = f"cannot connect to {address}: {error}"
        except TimeoutError:
            return f"no answer within {ANSWER_SECONDS} s"
        except ReceiverRefused as refused:
            return str(refused)
        except (httpx.HTTPError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return problem

    async def _answer(self, url: httpx.URL, headers: dict[str, str], body: bytes, host: str) -> str | None:
        """Return what is wrong with the answer of a receiver. Its text is not read."""
        named = {"sni_hostname": host}
        async with self.client.stream("POST", url, content=body, headers=headers, extensions=named) as response:
            is_taken = response.status_code < HTTPStatus.MULTIPLE_CHOICES
            return None if is_taken else f"the receiver answered {response.status_code}"


def _next_try(delivery: AwaitedDelivery, now: datetime) -> str | None:
    """Return the time of the next try after a failed one; None if it was the last."""
    if now - datetime.fromisoformat(delivery.since) > GIVEN_UP_AFTER:
        return None
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (min(delivery.tries, 30) - 1), LONGEST_PAUSE_SECONDS)
    jitter = 0.75 + secrets.randbelow(1000) / 2000
    return timestamp(now + timedelta(seconds=pause * jitter))
