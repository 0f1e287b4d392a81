"""Base URLs and environment variables for the official client of each API."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SIMULATED_KEY: Final = "sk-ant-model-sim"
"""A dummy key, not a credential: clients refuse to start without a key."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The settings of an API's official client. Its base URL is that of the simulator with `suffix`."""

    suffix: str
    url_variable: str
    key_variable: str


ENDPOINTS: Final = {
    "anthropic": Endpoint("", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai-chat": Endpoint("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openai-responses": Endpoint("/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "gemini": Endpoint("", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
"""The endpoints by the kind of API, as in `model_endpoint` of a description (SPEC 7)."""


class UnknownKind(ValueError):
    """The simulator has no such kind of API."""


def base_url(kind: str, url: str) -> str:
    """Return the base URL for the official client of an API.

    Args:
        kind: `anthropic`, `openai-chat`, `openai-responses` or `gemini`.
        url: The address of the simulator, without a path.

    Returns:
        The address with the suffix that the client expects, such as `/v1` for OpenAI.

    Raises:
        UnknownKind: No simulated API has this name.
    """
    if kind not in ENDPOINTS:
        raise UnknownKind(f"no simulated API is called {kind!r}; choose one of {', '.join(ENDPOINTS)}")
    return url + ENDPOINTS[kind].suffix


def environment_for(kind: str, url: str) -> dict[str, str]:
    """Return the environment variables that point the official client of an API at the simulator.

    For the `claude` command line use `claude_environment`.

    Args:
        kind: `anthropic`, `openai-chat`, `openai-responses` or `gemini`.
        url: The address of the simulator, without a path.

    Returns:
        Two variables: the base URL and a dummy key.

    Raises:
        UnknownKind: No simulated API has this name.
    """
    address, endpoint = base_url(kind, url), ENDPOINTS[kind]
    return {endpoint.url_variable: address, endpoint.key_variable: SIMULATED_KEY}


def claude_environment(url: str, home: Path) -> dict[str, str]:
    """Return the environment in which the real `claude` connects to the simulator and to nothing else.

    Args:
        url: The address of the simulator, without a path.
        home: An existing folder. The process writes its files below it.

    Returns:
        All variables but PATH, which the caller adds. As root with `bypassPermissions`, add `IS_SANDBOX=1`.
    """
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": SIMULATED_KEY,
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(home / "tmp"),
        # This alone disables telemetry and the update check, so that only the model's API is used.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # By default the client repeats a request ten times if the error persists, which takes minutes.
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
