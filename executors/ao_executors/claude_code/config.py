"""What `executor_config` may hold, and what counts where it is silent (docs/decisions/claude-code.md)."""

from typing import Any, Final

PERMISSION_MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")
DEFAULT_PERMISSION_MODE: Final = "dontAsk"
DEFAULT_TOOLS: Final = ("Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "WebSearch", "Write")
DEFAULT_MAX_API_RETRIES: Final = 4
DEFAULT_MAX_RETRY_DELAY_SECONDS: Final = 60.0


def _names(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "minLength": 1}, "description": description}


CONFIG_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "model": {
            "type": "string",
            "minLength": 1,
            "description": "Name or alias of a model. Default: that of the CLI.",
        },
        "permission_mode": {
            "enum": list(PERMISSION_MODES),
            "default": DEFAULT_PERMISSION_MODE,
            "description": "dontAsk denies what is not allowed in advance; bypassPermissions allows everything.",
        },
        "setting_sources": {
            "type": "array",
            "items": {"enum": ["user", "project", "local"]},
            "default": [],
            "description": "Settings files of the CLI to read. None by default: project settings run hooks.",
        },
        "tools": {
            **_names("Built-in tools available to the model; an empty list for none."),
            "default": list(DEFAULT_TOOLS),
        },
        "allowed_tools": _names("Tools, or rules such as Bash(git diff:*), that run without a permission request."),
        "disallowed_tools": _names("Tools that are not available, or rules such as Bash(rm *) that deny."),
        "on_denied_tool": {
            "enum": ["continue", "fail"],
            "default": "continue",
            "description": "continue tells the model that a tool was denied; fail ends the run as tool_failed.",
        },
        "max_turns": {
            "type": "integer",
            "minimum": 1,
            "description": "The lower of this and limits.max_turns applies.",
        },
        "max_budget_usd": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "The lower of this and limits.max_cost_usd applies.",
        },
        "add_dirs": {
            "type": "array",
            "items": {"type": "string", "pattern": "^/"},
            "description": "Absolute paths of further directories that tools may use.",
        },
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Variables for the CLI and its tools; they override the executor's.",
        },
        "max_api_retries": {
            "type": "integer",
            "minimum": 0,
            "default": DEFAULT_MAX_API_RETRIES,
            "description": "Number of retries after transient API errors. CLAUDE_CODE_MAX_RETRIES sets it, too.",
        },
        "max_retry_delay_seconds": {
            "type": "number",
            "minimum": 0,
            "default": DEFAULT_MAX_RETRY_DELAY_SECONDS,
            "description": "If the API requests a longer wait, the run ends instead.",
        },
        "cli_path": {
            "type": "string",
            "pattern": "^/",
            "description": "Path of a claude program to use instead of the SDK's.",
        },
    },
}
