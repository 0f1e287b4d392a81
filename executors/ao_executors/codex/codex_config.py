"""The configuration of the executor: the schema of `executor_config`, and the variables that the CLI reads.

docs/decisions/codex.md gives the reasons for the defaults.
"""

from typing import Final

from ao_executors.core.described import (
    MAX_TURNS,
    STREAMING,
    api_retries,
    choice,
    common_settings,
    fields,
    flag,
    path,
    table,
    variables,
)

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
SANDBOXES: Final = {"read": "read-only", "edit": "workspace-write", "all": "danger-full-access"}
"""By `access`, whose default is `read`."""
DEFAULT_WEB_SEARCH: Final = "disabled"

CONFIG_SCHEMA: Final = fields(
    {
        **common_settings(efforts=EFFORTS),
        "network_access": flag("Whether commands may use the network. With the access all they may.", default=False),
        "web_search": choice(
            "Whether the model has the web search of its provider.",
            ("disabled", "cached", "live"),
            default=DEFAULT_WEB_SEARCH,
        ),
        "project_doc": flag("Whether the model reads the AGENTS.md files of the project.", default=False),
        "max_turns": MAX_TURNS,
        "streaming": STREAMING,
        **api_retries(),
        "env": variables("the CLI and its commands; they override the executor's"),
        "codex_config": table("Further keys of the CLI's config.toml. A key that a setting here sets is refused."),
        "codex_path": path("Path of a codex program to use instead of the installed one."),
    }
)

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/webp")
"""Those of images that the CLI passes on as they are."""
SETTING_OF_KEY: Final = {
    "approval_policy": "access",
    "model": "model",
    "model_reasoning_effort": "reasoning_effort",
    "network_access": "network_access",
    "sandbox_mode": "access",
    "web_search": "web_search",
    "writable_roots": "additional_folders",
}
"""The keys of `codex_config`, and of `sandbox_workspace_write` in it, that a setting of the executor sets."""
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
