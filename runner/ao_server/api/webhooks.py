"""Webhooks: create, list, delete; what they have not received; and the callbacks that a session has not heard of."""

import asyncio
import secrets
from http import HTTPStatus
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ao_protocol.wire import JsonObject
from ao_runner.store.deliveries import AwaitedDelivery, Webhook
from ao_runner.store.notices import EventName
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.api.run_calls import RunId
from ao_server.api.sessions import SessionId, found_session
from ao_server.context import Context, ServerContext, reads
from ao_server.problems import Told, refusal
from ao_server.receivers import ReceiverRefused, is_secret, new_secret, receiver_url
from ao_server.recording import note_targets

routes = APIRouter(tags=["Webhooks"])
WebhookId = Annotated[str, Path(max_length=100)]
MaxDeliveries = Annotated[int, Query(ge=1, le=1000)]
RESOLVE_SECONDS: Final = 5


class NewWebhook(BaseModel):
    """A URL to which events are sent."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(max_length=2000, description="https or http. Its host must have a public address; see the docs.")
    secret: str | None = Field(None, max_length=200, description="Signs the messages; the server makes one if absent.")
    events: list[EventName] = Field(["run.ended"], min_length=1, max_length=5, description="Of which events it hears.")
    agents: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        [], max_length=100, description="Of the runs of which agents it hears; of all if empty."
    )
    format: Literal["json", "chat"] = Field(
        "json", description='`chat` sends `{"text": …}`, as incoming webhooks of Slack and Mattermost take it.'
    )


@routes.post("/webhooks", status_code=HTTPStatus.CREATED)
async def create_webhook(
    request: Request, context: Context, response: Response, wanted: NewWebhook
) -> Annotated[Json, Shape(answers.CreatedWebhook)]:
    """Send all later events of some kinds to a URL. A `secret` that the server makes is in this answer only."""
    made = await added(context, wanted, str(request.base_url).rstrip("/"))
    response.headers["Location"] = f"/webhooks/{made['webhook_id']}"
    return made


async def added(context: ServerContext, wanted: NewWebhook, address: str) -> JsonObject:
    """Add a webhook; `address` is that of the server, for links in messages to a chat.

    Raises:
        HTTPException: The URL or the secret is refused.
    """
    if wanted.secret is not None and not is_secret(wanted.secret):
        message = "secret: expected whsec_ and 24 to 64 bytes in base64; omit it, and the server makes one"
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_secret", message)
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await context.receivers.addresses_of(receiver_url(wanted.url))
    except TimeoutError:
        message = f"url: its host was not resolved within {RESOLVE_SECONDS} s"
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_url", message) from None
    except ReceiverRefused as refused:
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_url", f"url: {refused}") from refused
    secret = wanted.secret or new_secret()
    created_at = timestamp(await context.access.read(lambda store: store.now()))
    settings: JsonObject = {**wanted.model_dump(include={"events", "agents", "format"}), "address": address}
    webhook = Webhook(f"whk_{secrets.token_hex(8)}", wanted.url, secret, created_at, settings)
    note_targets(webhook.webhook_id)
    await context.access.write(lambda store: store.webhooks.add(webhook))
    return {**_shown(webhook), **({} if wanted.secret else {"secret": secret})}


@routes.get("/webhooks")
@reads
def list_webhooks(store: Store) -> Annotated[Json, Shape(answers.Webhooks)]:
    """List all webhooks."""
    return {"webhooks": list(map(_shown, store.webhooks.all()))}


@routes.delete("/webhooks/{webhook_id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_webhook(context: Context, webhook_id: WebhookId) -> None:
    """Delete a webhook and what it has not received."""
    if not await context.access.write(lambda store: store.webhooks.delete(webhook_id)):
        raise _not_found()


@routes.get("/webhooks/{webhook_id}/deliveries")
@reads
def list_deliveries(
    store: Store, webhook_id: WebhookId, limit: MaxDeliveries = 100
) -> Annotated[Json, Shape(answers.Deliveries)]:
    """List the events that a webhook has not received. Without `next_at`, they are given up."""
    if store.webhooks.find(webhook_id) is None:
        raise _not_found()
    return {"deliveries": list(map(_shown_delivery, store.deliveries.all("webhook", webhook_id, limit)))}


@routes.post("/webhooks/{webhook_id}/deliveries/{run_id}/retry", status_code=HTTPStatus.ACCEPTED)
async def retry_delivery(
    context: Context, webhook_id: WebhookId, run_id: RunId
) -> Annotated[Json, Shape(answers.RetriedDelivery)]:
    """Try a delivery at once, and for three more days."""
    if not await context.access.write(
        lambda store: store.webhooks.retry_message(webhook_id, run_id, timestamp(store.now()))
    ):
        raise Told(HTTPStatus.NOT_FOUND, "delivery_not_found", "Delivery not found: it has succeeded, or never was")
    context.access.wakeup.notify()
    return {"ok": True, "webhook_id": webhook_id, "run_id": run_id}


@routes.get("/sessions/{session_id}/callbacks")
@reads
def list_callbacks(
    store: Store, session_id: SessionId, limit: MaxDeliveries = 100
) -> Annotated[Json, Shape(answers.Callbacks)]:
    """List the ended children of which a session has not heard. Without `next_at`, they are given up."""
    found_session(store, session_id)
    return {"callbacks": list(map(_shown_delivery, store.deliveries.all("callback", session_id, limit)))}


def _shown(webhook: Webhook) -> JsonObject:
    return {
        "webhook_id": webhook.webhook_id,
        "url": webhook.url,
        "created_at": webhook.created_at,
        "events": list(webhook.events),
        "agents": list(webhook.settings.get("agents", ())),
        "format": webhook.settings.get("format", "json"),
        "delivered_at": webhook.delivered_at,
    }


def _shown_delivery(delivery: AwaitedDelivery) -> JsonObject:
    return {
        "run_id": delivery.run_id,
        "status": "waiting" if delivery.next_at else "failed",
        "since": delivery.since,
        "tries": delivery.tries,
        "next_at": delivery.next_at,
        "problem": delivery.problem,
    }


def _not_found() -> HTTPException:
    return Told(HTTPStatus.NOT_FOUND, "webhook_not_found", "Webhook not found")
