"""What clients ask besides a model's answer: probes, models, token counts. These use up no answer of the script."""

import re
from typing import Final

from pydantic import JsonValue

from ao_model_simulator.endpoints import ENDPOINTS
from ao_model_simulator.given_answer import CREATED
from ao_model_simulator.model_request import ModelRequest

CHARS_PER_TOKEN: Final = 4
MODELS: Final = re.compile(r"/v1(?:beta|alpha)?/models(?:/(?P<model>[^/:]+))?")
GEMINI_COUNT: Final = re.compile(r"/v1(?:beta|alpha)?/models/[^/:]+:countTokens")


def side_document(request: ModelRequest, model: str) -> JsonValue:
    """Return the answer to a request that needs no model, or None when there is no such request.

    Every model that is asked about exists; lists have `model` alone.
    """
    match request.method:
        case "GET" | "HEAD":
            return _read_only(request.route, model)
        case "POST":
            return _token_count(request)
        case _:
            return None


def _read_only(route: str, model: str) -> JsonValue:
    # `/api/hello` is how the claude command line looks whether the API can be reached.
    if route in {"/", "/api/hello"}:
        return {"name": "model-sim", "apis": [*ENDPOINTS]}
    found = MODELS.fullmatch(route)
    if found is None:
        return None
    if found["model"] is not None:
        return _model_entry(found["model"])
    entries: JsonValue = [_model_entry(model)]
    listing: dict[str, JsonValue] = {"has_more": False, "first_id": model, "last_id": model}
    return {"object": "list", "data": entries, "models": entries, **listing}


def _token_count(request: ModelRequest) -> JsonValue:
    tokens = len(str(request.body)) // CHARS_PER_TOKEN
    match request.route:
        case "/v1/messages/count_tokens":
            return {"input_tokens": tokens}
        case "/v1/responses/input_tokens":
            return {"object": "response.input_tokens", "input_tokens": tokens}
        case route if GEMINI_COUNT.fullmatch(route):
            return {"totalTokens": tokens}
        case _:
            return None


def _model_entry(model: str) -> dict[str, JsonValue]:
    """Return a model as all APIs describe it: they share the path, so each client finds its own members."""
    anthropic: dict[str, JsonValue] = {
        "id": model,
        "type": "model",
        "display_name": model,
        "created_at": "2025-01-01T00:00:00Z",
    }
    openai: dict[str, JsonValue] = {"object": "model", "created": CREATED, "owned_by": "model-sim"}
    gemini: dict[str, JsonValue] = {
        "name": f"models/{model}",
        "version": "001",
        "displayName": model,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
    return {**anthropic, **openai, **gemini}
