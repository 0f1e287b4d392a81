"""The configuration of the executor: the schema of `executor_config`, and the variables that the CLI reads.

docs/decisions/codex.md gives the reasons for the defaults.
"""

from typing import Any, Final

SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")
DEFAULT_SANDBOX: Final = "read-only"
APPROVAL_POLICIES: Final = ("never", "on-request", "untrusted")
DEFAULT_MAX_API_RETRIES: Final = 4
DEFAULT_MAX_RETRY_DELAY_SECONDS: Final = 60.0
DEFAULT_WEB_SEARCH: Final = "disabled"

CONFIG_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "model": {
            "type": "string",
            "minLength": 1,
            "description": "Name of a model. Default: that of the CLI.",
        },
        "reasoning_effort": {
            "type": "string",
            "minLength": 1,
            "description": "How much the model thinks, such as low, medium or high. Default: that of the model.",
        },
        "sandbox": {
            "enum": list(SANDBOXES),
            "default": DEFAULT_SANDBOX,
            "description": "What commands may change: nothing, the project directory, or everything.",
        },
        "network_access": {
            "type": "boolean",
            "default": False,
            "description": "Whether commands in the sandbox workspace-write may use the network.",
        },
        "writable_roots": {
            "type": "array",
            "items": {"type": "string", "pattern": "^/"},
            "description": "Absolute paths of further directories that commands in workspace-write may change.",
        },
        "approval_policy": {
            "enum": list(APPROVAL_POLICIES),
            "description": "When the CLI asks before it leaves the sandbox. Without a person who is asked, the answer "
            "is no. Default: on-request if a person can be asked, else never.",
        },
        "web_search": {
            "enum": ["disabled", "cached", "live"],
            "default": DEFAULT_WEB_SEARCH,
            "description": "Whether the model has the web search of its provider.",
        },
        "project_doc": {
            "type": "boolean",
            "default": False,
            "description": "Whether the model reads the AGENTS.md files of the project.",
        },
        "max_turns": {
            "type": "integer",
            "minimum": 1,
            "description": "The lower of this and limits.max_turns applies.",
        },
        "streaming": {
            "type": "boolean",
            "default": True,
            "description": "Report text while the model writes it; never under an output contract.",
        },
        "max_api_retries": {
            "type": "integer",
            "minimum": 0,
            "default": DEFAULT_MAX_API_RETRIES,
            "description": "Number of retries after transient API errors.",
        },
        "max_retry_delay_seconds": {
            "type": "number",
            "minimum": 0,
            "default": DEFAULT_MAX_RETRY_DELAY_SECONDS,
            "description": "If the API requests a longer wait, the run ends instead.",
        },
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Variables for the CLI and its commands; they override the executor's.",
        },
        "codex_config": {
            "type": "object",
            "description": "Further keys of the CLI's config.toml, as an object. They override everything above.",
        },
        "codex_path": {
            "type": "string",
            "pattern": "^/",
            "description": "Path of a codex program to use instead of the installed one.",
        },
    },
}

KEYS: Final = ("OPENAI_API_KEY", "CODEX_API_KEY")
"""Each of them is a key for OpenAI's own API. The first one that is set is used, and the CLI's login is not."""
SECRETS: Final = KEYS
"""The variables whose values only the CLI may have."""
SETTINGS: Final = (
    "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_CA_CERTIFICATE", "CODEX_HOME",
    "CODEX_SQLITE_HOME", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "http_proxy", "https_proxy",
    "no_proxy",
)  # fmt: skip
"""The variables that are not secrets."""
