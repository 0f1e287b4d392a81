"""The webhooks: what each hears of and has not received, a form for a new one, and *Send again*."""

from http import HTTPStatus
from typing import Annotated, Final, get_args

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from ao_protocol.wire import JsonObject
from ao_runner.store.deliveries import AwaitedDelivery, Webhook
from ao_runner.store.notices import EventName, Notice
from ao_runner.store.store import Store
from ao_server.api.run_calls import RunId
from ao_server.api.webhooks import NewWebhook, WebhookId, added, delete_webhook, retry_delivery
from ao_server.context import Context, ServerContext
from ao_server.pages.rendering import page, see

routes = APIRouter(include_in_schema=False)
MOST_SHOWN: Final = 50
EVENTS: Final = get_args(EventName)
PAGE: Final = "/ui/webhooks"


class WebhookDraft(BaseModel):
    """The fields of the form."""

    url: str = ""
    events: list[str] = []
    agents: str = ""
    format: str = "json"


@routes.get(PAGE)
async def list_webhooks(request: Request, context: Context) -> Response:
    """Show all webhooks and what they have not received."""
    return await _shown(request, context, WebhookDraft(events=["input.requested", "run.failed"]))


@routes.post(PAGE)
async def add_webhook(request: Request, context: Context, draft: Annotated[WebhookDraft, Form()]) -> Response:
    """Add a webhook and show its secret, once; or show what is wrong."""
    agents = [name.strip() for name in draft.agents.split(",") if name.strip()]
    try:
        wanted = NewWebhook.model_validate({**draft.model_dump(), "agents": agents})
        made = await added(context, wanted, str(request.base_url).rstrip("/"))
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{first['loc'][0]}: {first['msg']}"
    except HTTPException as error:
        problem = str(error.detail["message"] if isinstance(error.detail, dict) else error.detail)
    else:
        return await _shown(request, context, WebhookDraft(), HTTPStatus.CREATED, made=made)
    return await _shown(request, context, draft, HTTPStatus.UNPROCESSABLE_ENTITY, problem=problem)


@routes.post(PAGE + "/{webhook_id}/delete")
async def delete(context: Context, webhook_id: WebhookId) -> RedirectResponse:
    """Delete a webhook."""
    await delete_webhook(context, webhook_id)
    return see(PAGE, "The webhook was deleted")


@routes.post(PAGE + "/{webhook_id}/deliveries/{run_id}/retry")
async def send_again(context: Context, webhook_id: WebhookId, run_id: RunId) -> RedirectResponse:
    """Try a delivery at once."""
    await retry_delivery(context, webhook_id, run_id)
    return see(PAGE, "It is sent again")


async def _shown(
    request: Request, context: ServerContext, draft: WebhookDraft, status: int = 200, *, problem: str = "",
    made: JsonObject | None = None,
) -> Response:  # fmt: skip
    def told(store: Store, webhook_id: str) -> list[tuple[AwaitedDelivery, Notice | None]]:
        awaited = store.deliveries.all("webhook", webhook_id, MOST_SHOWN)
        return [(one, store.notices.find(one.run_id)) for one in awaited]

    def read(store: Store) -> list[tuple[Webhook, list[tuple[AwaitedDelivery, Notice | None]]]]:
        return [(one, told(store, one.webhook_id)) for one in store.webhooks.all()]

    found = await context.access.read(read)
    return page(request, "webhooks.html", status, found=found, draft=draft, events=EVENTS, problem=problem, made=made)
