"""Where the official clients of each API find the simulator, and by which variables they are told."""

from dataclasses import dataclass
from typing import Final

SIMULATED_KEY: Final = "sk-ant-model-sim"
"""Not a credential: clients refuse to start without any."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the official client of an API reads: its base address is the simulator's with `suffix`."""

    suffix: str
    url_variable: str
    key_variable: str


ENDPOINTS: Final = {
    "anthropic": Endpoint("", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai-chat": Endpoint("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openai-responses": Endpoint("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "gemini": Endpoint("", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
"""By the kind of API, as `model_endpoint` of a description names it (SPEC 7)."""


@dataclass(eq=False)
class UnknownKind(ValueError):
    """There is no such kind of API."""

    kind: str

    def __str__(self) -> str:
        return f"no simulated API is called {self.kind!r}; choose one of {', '.join(ENDPOINTS)}"


def base_url(kind: str, url: str) -> str:
    """Return the base address as that API's official client expects it. Raise `UnknownKind`."""
    return url + _endpoint(kind).suffix


def environment_for(kind: str, url: str) -> dict[str, str]:
    """Return the variables that point that API's official client at the simulator at `url`. Raise `UnknownKind`.

    For the `claude` command line use `claude_environment`.
    """
    endpoint = _endpoint(kind)
    return {endpoint.url_variable: url + endpoint.suffix, endpoint.key_variable: SIMULATED_KEY}


def _endpoint(kind: str) -> Endpoint:
    try:
        return ENDPOINTS[kind]
    except KeyError:
        raise UnknownKind(kind) from None
