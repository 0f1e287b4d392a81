"""The configuration of the executor: the schema of `executor_config`, and the variables that the CLI reads.

docs/decisions/codex.md gives the reasons for the defaults.
"""

from typing import Final

from ao_executors.core.described import (
    MAX_TURNS,
    STREAMING,
    api_retries,
    array,
    choice,
    fields,
    flag,
    name,
    path,
    table,
    variables,
)

SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")
DEFAULT_SANDBOX: Final = "read-only"
APPROVAL_POLICIES: Final = ("never", "on-request", "untrusted")
DEFAULT_WEB_SEARCH: Final = "disabled"

CONFIG_SCHEMA: Final = fields(
    {
        "model": name("Name of a model. Default: that of the CLI."),
        "reasoning_effort": name("How much the model thinks, such as low, medium or high. Default: that of the model."),
        "sandbox": choice(
            "What commands may change: nothing, the project directory, or everything.",
            SANDBOXES,
            default=DEFAULT_SANDBOX,
        ),
        "network_access": flag("Whether commands in the sandbox workspace-write may use the network.", default=False),
        "writable_roots": array(
            "Absolute paths of further directories that commands in workspace-write may change.",
            {"type": "string", "pattern": "^/"},
        ),
        "approval_policy": choice(
            "When the CLI asks before it leaves the sandbox. Without a person who is asked, the answer "
            "is no. Default: on-request if a person can be asked, else never.",
            APPROVAL_POLICIES,
        ),
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
        "codex_config": table("Further keys of the CLI's config.toml, as an object. They override everything above."),
        "codex_path": path("Path of a codex program to use instead of the installed one."),
    }
)

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
