"""The configuration of the executor: the schema of `executor_config`, and the variables that the CLI reads.

docs/decisions/claude-code.md gives the reasons for the defaults.
"""

from typing import Final

from ao_executors.core.described import (
    MAX_TURNS,
    STREAMING,
    api_retries,
    array,
    choice,
    common_settings,
    fields,
    number,
    path,
    variables,
)

PERMISSION_MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")
DEFAULT_PERMISSION_MODE: Final = "dontAsk"
ASKING_PERMISSION_MODE: Final = "default"
"""The mode of a run whose requests are answered."""
ASKING_PERMISSION_MODES: Final = frozenset({ASKING_PERMISSION_MODE, "acceptEdits"})
"""The modes in which a person is asked about what nothing decides."""
MODES_OF_ACCESS: Final = {
    "read": ("dontAsk", "default", "plan"),
    "edit": ("acceptEdits",),
    "all": ("bypassPermissions",),
}
"""The permission modes that keep the meaning of each value of `access`."""
REASONING_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain")
"""The types of attachments that reach the model. The Messages API takes no others."""
DEFAULT_TOOLS: Final = ("Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "WebSearch", "Write")
_NAME: Final = {"type": "string", "minLength": 1}

CONFIG_SCHEMA: Final = fields(
    {
        **common_settings(efforts=REASONING_EFFORTS),
        "permission_mode": choice(
            "dontAsk denies what is not allowed in advance; bypassPermissions allows everything;"
            " default asks a person, and is the default of a run whose requests are answered."
            " It may not contradict access.",
            PERMISSION_MODES,
            default=DEFAULT_PERMISSION_MODE,
        ),
        "setting_sources": array(
            "Settings files of the CLI to read. None by default: project settings run hooks.",
            {"enum": ["user", "project", "local"]},
            default=[],
        ),
        "tools": array(
            "Built-in tools available to the model; an empty list for none.", _NAME, default=list(DEFAULT_TOOLS)
        ),
        "disallowed_tools": array("Tools that are not available, or rules such as Bash(rm *) that deny.", _NAME),
        "on_denied_tool": choice(
            "continue tells the model that a tool was denied; fail ends the run as tool_failed.",
            ("continue", "fail"),
            default="continue",
        ),
        "max_turns": MAX_TURNS,
        "max_budget_usd": number("The lower of this and limits.max_cost_usd applies.", exclusiveMinimum=0),
        "streaming": STREAMING,
        "env": variables("the CLI and its tools; they override the executor's"),
        **api_retries(" CLAUDE_CODE_MAX_RETRIES sets it, too."),
        "cli_path": path("Path of a claude program to use instead of the SDK's."),
    }
)

CREDENTIALS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
"""Each of them is sufficient for Anthropic's own API."""
CLOUDS: Final = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_VERTEX")
"""Each of them makes the CLI use a cloud instead, with the credentials of that cloud."""
SECRETS: Final = (
    *CREDENTIALS,
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
)
"""The variables whose values only the CLI may have."""
SETTINGS: Final = (
    *CLOUDS,
    "ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_BEDROCK_SERVICE_TIER",
    "ANTHROPIC_DEFAULT_FABLE_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION", "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_VERTEX_PROJECT_ID", "API_TIMEOUT_MS", "AWS_ACCESS_KEY_ID", "AWS_CA_BUNDLE", "AWS_CONFIG_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_REGION", "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH", "CLAUDE_CODE_SKIP_FOUNDRY_AUTH", "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_TMPDIR", "CLAUDE_CONFIG_DIR", "CLOUDSDK_CONFIG", "CLOUD_ML_REGION", "GCLOUD_PROJECT",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "HTTPS_PROXY",
    "HTTP_PROXY", "IS_SANDBOX", "NODE_EXTRA_CA_CERTS", "NO_PROXY", "SSL_CERT_FILE", "TRACEPARENT", "http_proxy",
    "https_proxy", "no_proxy",
)  # fmt: skip
"""The variables that are not secrets. The region of a single model on a cloud is set in `env` of the config."""
