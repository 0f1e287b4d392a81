"""What `executor_config` may hold, and what counts where it is silent (docs/decisions/claude-code.md)."""

from typing import Any, Final

PERMISSION_MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")
DEFAULT_PERMISSION_MODE: Final = "dontAsk"
DEFAULT_TOOLS: Final = ("Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "WebSearch", "Write")
DEFAULT_MAX_API_RETRIES: Final = 4
DEFAULT_MAX_RETRY_DELAY_SECONDS: Final = 60.0
SECRETS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
"""The variables whose values are for the CLI alone."""


def _names(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "minLength": 1}, "description": description}


CONFIG_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "model": {
            "type": "string",
            "minLength": 1,
            "description": "A model's name or alias; the CLI's own by default.",
        },
        "permission_mode": {
            "enum": list(PERMISSION_MODES),
            "default": DEFAULT_PERMISSION_MODE,
            "description": "dontAsk denies what is not allowed beforehand; bypassPermissions allows everything.",
        },
        "setting_sources": {
            "type": "array",
            "items": {"enum": ["user", "project", "local"]},
            "default": [],
            "description": "Which settings files of the CLI are read. None by default: project settings run hooks.",
        },
        "tools": {
            **_names("The built-in tools that exist for the model; an empty list for none."),
            "default": list(DEFAULT_TOOLS),
        },
        "allowed_tools": _names("Tools, or rules such as Bash(git diff:*), that run without asking."),
        "disallowed_tools": _names("Tools that are taken away."),
        "max_turns": {
            "type": "integer",
            "minimum": 1,
            "description": "The lower one of this and limits.max_turns counts.",
        },
        "max_budget_usd": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "The lower one of this and limits.max_cost_usd counts.",
        },
        "add_dirs": {
            "type": "array",
            "items": {"type": "string", "pattern": "^/"},
            "description": "Further directories that tools may use, absolute.",
        },
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Variables for the CLI and its tools, over those of the executor.",
        },
        "max_api_retries": {
            "type": "integer",
            "minimum": 0,
            "default": DEFAULT_MAX_API_RETRIES,
            "description": "How often a transient API error is tried again. CLAUDE_CODE_MAX_RETRIES sets it, too.",
        },
        "max_retry_delay_seconds": {
            "type": "number",
            "minimum": 0,
            "default": DEFAULT_MAX_RETRY_DELAY_SECONDS,
            "description": "A longer wait that the API asks for ends the run instead.",
        },
        "cli_path": {"type": "string", "pattern": "^/", "description": "Another claude than the SDK's own."},
    },
}
