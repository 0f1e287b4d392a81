"""Which API a request is for. All of them are served at once: their paths differ."""

from typing import Final

from ao_model_simulator.providers.anthropic import AnthropicMessages
from ao_model_simulator.providers.gemini import Gemini
from ao_model_simulator.providers.openai_chat import OpenAIChat
from ao_model_simulator.providers.openai_responses import OpenAIResponses
from ao_model_simulator.providers.provider import Provider

ANTHROPIC: Final = AnthropicMessages()
BY_PREFIX: Final[tuple[tuple[str, Provider], ...]] = (
    ("/v1/chat/", OpenAIChat()),
    ("/v1/responses", OpenAIResponses()),
    ("/v1beta/", Gemini()),
    ("/v1alpha/", Gemini()),
    ("/v1/models/", Gemini()),
    ("/", ANTHROPIC),
)


def nearest_provider(path: str) -> Provider:
    """Return the API in whose words a request is read and an error is told, whatever the request is."""
    return next(provider for prefix, provider in BY_PREFIX if path.startswith(prefix) or prefix == "/")


def find_provider(method: str, path: str) -> Provider | None:
    """Return the API whose model is asked for an answer, or None when none is."""
    provider = nearest_provider(path)
    return provider if provider.serves(method, path.partition("?")[0]) else None
