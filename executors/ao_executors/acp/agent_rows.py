"""The known agents, as data: how each is started, what it needs, and in which points it differs from the protocol.

Each row was measured with the version of the program that it names (docs/acp-executors.md). A text in braces is a
placeholder: see `ao_executors.acp.launch`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ao_executors.core.described import DEFAULT_MAX_API_RETRIES
from ao_executors.vendors.provider_errors import CLAUDE_ERRORS
from ao_protocol.errors import ErrorType

DEFAULT_IDLE_SECONDS: Final = 900
DEFAULT_START_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent.

    Args:
        name: The name of the executor; its program is `ao-<name>-exec`.
        argv: The command; empty if `executor_config.command` has it.
        install_hint: How one gets the program.
        required: Fields of the configuration without which a run is refused.
        kept: The common settings (SPEC 7) that it keeps.
        efforts: The values of `reasoning_effort`.
        translations: By setting and value (None: not set): the value of the placeholder with the name of the setting. A
            `reasoning_effort` that is not here is chosen in the session.
        folders_in_session: Whether `additional_folders` are a parameter of the session.
        media_types: Those of the attachments that it passes to its model unchanged.
        inlines_files: Whether a block of type `image` may have any media type.
        credentials: Variables with a key or a login.
        needs_one_credential: Whether only the first of them that is set may reach the agent.
        secrets: Further variables with secrets.
        settings: Variables that are not secrets.
        providers: By credential, the provider whose name and a slash precede a model's name without a slash. The first
            credential that is set counts.
        endpoints: By kind of API: the variable with its address, and the one with its key.
        variables: Variables for the agent. Those with a placeholder without a value are left out. An object becomes
            JSON; the content of the key `file` becomes a file, and that of `home` the files of a folder, by their
            paths in it: the variable has the path of the file or folder.
        meta: `_meta` of `session/new`, `session/resume` and `session/load`.
        mode: The session mode in which the agent asks for permission; None: the agent begins in it.
        lasting_options: Answers to a permission request that the agent writes into its configuration, for all later
            sessions. Nobody is offered them.
        tool_name: A field of the first update of a tool call, and a pattern with the tool's own name in it.
        answer_tool: The own name of `submit_answer`.
        resumes: Whether an earlier session can be continued in a new process.
        stays_in_folder: Whether the tools of a session work in its first folder, whatever a resume names.
        tells_cost: Whether it tells the cost of a session, by which `limits.max_cost_usd` is kept.
        tells_retries: Whether it tells each retry of the Claude CLI.
        told_error: A pattern of a line of stderr with an error of the provider: the group `words`, and `answered` if
            the provider has answered with it. Empty: stderr has no such lines.
        lost_race: What it prints when it ends because another one starts in the same moment. It is started again.
        usual_retries: How often it tries a request again, if nothing is configured.
        hides: The endings of an answer that it tells as `end_turn`, in words; empty if it hides none.
        counts_turns: Whether token counts are those of a turn; otherwise they are totals of the session.
        errors: Error types by a text of the agent's own, in lower case; the first that is found counts, before the
            words that all providers and agents have in common.
        server_status: A method with the `discoveryState` of MCP servers, for an agent that asks its model before it has
            connected to them.
        expands_variables: Whether it expands `${NAME}` in texts of MCP servers, as the Claude CLI does.
        unknown_session: Texts, in lower case, of an error for a session that the agent does not know.
    """

    name: str
    argv: tuple[str, ...] = ()
    install_hint: str = "name its path in executor_config.command"
    required: tuple[str, ...] = ()
    kept: tuple[str, ...] = ("model", "show_reasoning", "access", "allowed_tools")
    efforts: tuple[str, ...] = ()
    translations: Mapping[str, Mapping[Any, object]] = field(default_factory=dict)
    folders_in_session: bool = False
    media_types: tuple[str, ...] = ()
    inlines_files: bool = False
    credentials: tuple[str, ...] = ()
    needs_one_credential: bool = True
    secrets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    providers: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    variables: Mapping[str, object] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    lasting_options: tuple[str, ...] = ()
    tool_name: tuple[str, str] = ("name", "(.+)")
    answer_tool: str = "mcp__ao_answer__submit_answer"
    resumes: bool = False
    stays_in_folder: bool = False
    tells_cost: bool = False
    tells_retries: bool = False
    told_error: str = ""
    lost_race: str = ""
    usual_retries: int = DEFAULT_MAX_API_RETRIES
    hides: str = ""
    counts_turns: bool = False
    errors: Mapping[str, ErrorType] = field(default_factory=dict)
    server_status: str = ""
    expands_variables: bool = False
    unknown_session: tuple[str, ...] = ("resource not found", "session not found", "unknown session")

    @property
    def is_known(self) -> bool:
        """False for the generic executor, whose agent is named in the configuration."""
        return bool(self.argv)

    @property
    def unkept_limits(self) -> dict[str, str]:
        """The limits of an invocation that cannot be kept, with the reasons."""
        turns = {} if self.takes("max_turns") else {"max_turns": "the agent does not tell how often it asks its model"}
        return turns if self.tells_cost else {**turns, "max_cost_usd": "the agent does not tell what a run costs"}

    def takes(self, value: str) -> bool:
        """Return whether the row passes on a value by a placeholder, such as `system_prompt` or `max_turns`."""
        return f"{{{value}" in f"{self.argv} {self.variables} {self.meta}"


_PROXIES: Final = (
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
)
_ALL_COMMON: Final = ("model", "reasoning_effort", "show_reasoning", "access", "allowed_tools", "additional_folders")
_IMAGES_AND_PDF: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
_CLAUDE_CREDENTIALS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")

CLAUDE: Final = AgentRow(
    name="claude-acp",
    argv=("claude-agent-acp",),
    install_hint="npm install -g @agentclientprotocol/claude-agent-acp (Node 22 or newer)",
    kept=_ALL_COMMON,
    efforts=("low", "medium", "high", "xhigh", "max"),
    translations={"show_reasoning": {None: "summarized", True: "summarized"}},
    folders_in_session=True,
    media_types=_IMAGES_AND_PDF,
    credentials=_CLAUDE_CREDENTIALS,
    secrets=("ANTHROPIC_CUSTOM_HEADERS",),
    settings=(
        *("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "API_TIMEOUT_MS"),
        *("CLAUDE_CODE_EXECUTABLE", "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CONFIG_DIR", *_PROXIES),
    ),
    endpoints={"anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")},
    variables={
        "ANTHROPIC_MODEL": "{model}",
        "CLAUDE_AGENT_ACP_PROTOCOL": "v1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "{api_attempts}",
        "CLAUDE_CODE_THINKING_DISPLAY": "{show_reasoning}",  # without it, models write no text of it
        "CLAUDE_CODE_TMPDIR": "{folder}",
        "ENABLE_TOOL_SEARCH": "{tool_search}",
        # The text in this file precedes every command of the Bash tool, which inherits the CLI's environment.
        "CLAUDE_ENV_FILE": {"file": f"unset {' '.join(_CLAUDE_CREDENTIALS)} ANTHROPIC_CUSTOM_HEADERS\n"},
        "NO_BROWSER": "1",
    },
    meta={
        "systemPrompt": "{system_prompt}",
        # A title is given, because the CLI would ask the model for one; suggestions would ask it, too.
        "claudeCode": {
            "emitRawSDKMessages": [{"type": "system", "subtype": "api_retry"}],
            "options": {
                "title": "ao",
                "promptSuggestions": False,
                "settingSources": [],
                "strictMcpConfig": True,
                "verbatimPrompts": True,  # `/command` and `@file` are text
                "maxTurns": "{max_turns}",
                "allowedTools": "{allowed_tools}",
                "forwardSubagentText": True,
            },
        },
    },
    mode="default",
    resumes=True,
    tells_cost=True,
    tells_retries=True,
    counts_turns=True,
    errors={
        **{f'"errorkind": "{name}"': kind for name, kind in CLAUDE_ERRORS.items()},
        "empty or malformed response": ErrorType.PROVIDER_UNAVAILABLE,
        "reached maximum number of turns": ErrorType.LIMIT_EXCEEDED,
        "prompt is too long": ErrorType.CONTEXT_WINDOW_EXCEEDED,
        "api error: 403": ErrorType.PERMISSION_DENIED,
    },
    unknown_session=("resource not found", "requires a valid session id", "without null bytes"),
    expands_variables=True,
)

_GEMINI_SETTINGS: Final = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ui": {"enableFollowupSuggestions": False},
    "memory": {"enableManagedAutoMemory": False},
}


def _gemini_thinking(budget: int, level: str) -> list[dict[str, object]]:
    """Return the overrides for one effort: a level, and for models before Gemini 3 a budget in tokens."""
    thinking = {"thinkingLevel": level}
    older = {"thinkingLevel": None, "thinkingBudget": budget}
    return [
        {"match": match, "modelConfig": {"generateContentConfig": {"thinkingConfig": config}}}
        for match, config in (({"isChatModel": True}, thinking), ({"model": "chat-base-2.5"}, older))
    ]


_GEMINI_EFFORTS: Final = {
    "low": _gemini_thinking(1024, "LOW"),
    "medium": _gemini_thinking(8192, "MEDIUM"),
    "high": _gemini_thinking(24576, "HIGH"),
}

GEMINI: Final = AgentRow(
    name="gemini",
    argv=("gemini", "--acp"),
    install_hint="npm install -g @google/gemini-cli (Node 20 or newer)",
    kept=_ALL_COMMON,
    efforts=tuple(_GEMINI_EFFORTS),
    translations={"reasoning_effort": _GEMINI_EFFORTS},
    media_types=("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain", "audio/wav"),
    inlines_files=True,
    tool_name=("toolCallId", r"(.+)(?:__|-\d+-\d+$)"),
    answer_tool="mcp_ao_answer_submit_answer",
    credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    settings=(
        *("GEMINI_MODEL", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_LOCATION"),
        *("GOOGLE_CLOUD_PROJECT", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", *_PROXIES),
    ),
    endpoints={"gemini": ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY")},
    variables={
        # It reads GEMINI_CLI_SYSTEM_SETTINGS_PATH only where the file and all folders above it are root's alone.
        "GEMINI_CLI_HOME": {
            "home": {
                ".gemini/settings.json": {
                    **_GEMINI_SETTINGS,
                    "general": {**_GEMINI_SETTINGS["general"], "maxAttempts": "{api_attempts}"},
                    # By default it asks another model, before each answer, which model is to answer.
                    # An answer that repeats itself, such as a long table, would be interrupted.
                    "model": {"name": "pro", "maxSessionTurns": "{max_turns}", "disableLoopDetection": True},
                    # Otherwise its shell has the key of its API.
                    "security": {"environmentVariableRedaction": {"enabled": True}},
                    "context": {"includeDirectories": "{additional_folders}"},
                    "mcp": {"allowed": "{mcp_servers}"},  # their tools need no question
                    "modelConfigs": {"customOverrides": "{reasoning_effort}"},
                }
            }
        },
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_MODEL": "{model}",
        "GEMINI_SYSTEM_MD": "{system_prompt_file}",
        "TMPDIR": "{folder}",  # it leaves a file there for each error of the API
        "NO_BROWSER": "1",
    },
    usual_retries=2,  # it waits 5 s before the first one, and twice as long before each other one
    hides="cut off or refused",
    counts_turns=True,
)

_OPENCODE_PROVIDERS: Final = {
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENAI_API_KEY": "openai",
    "OPENCODE_API_KEY": "opencode",
}

OPENCODE: Final = AgentRow(
    name="opencode",
    argv=("opencode", "acp", "--print-logs", "--log-level=ERROR"),
    install_hint="npm install -g opencode-ai",
    kept=_ALL_COMMON,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    # A sub-agent's requests for permission do not reach the client, so with `all` it must not have any.
    translations={"access": {None: "ask", "read": "ask", "edit": "ask", "all": "allow"}},
    media_types=_IMAGES_AND_PDF,
    tool_name=("title", "(.+)"),
    answer_tool="ao_answer_submit_answer",
    required=("model",),  # its own choice is a model of opencode.ai, whatever keys it has
    credentials=tuple(_OPENCODE_PROVIDERS),
    needs_one_credential=False,  # each belongs to a provider, and the model names the provider
    providers=_OPENCODE_PROVIDERS,
    settings=("ANTHROPIC_BASE_URL", "XDG_CONFIG_HOME", "XDG_DATA_HOME", *_PROXIES),
    endpoints={"anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")},
    variables={
        "OPENCODE_CONFIG_CONTENT": {
            "autoupdate": False,
            "share": "disabled",
            "model": "{model}",
            "small_model": "{model}",
            "permission": {"*": "{access}", "ao_answer_*": "deny"},  # a sub-agent submits no answer
            "default_agent": "ao",
            "agent": {
                "ao": {
                    "mode": "primary",
                    "prompt": "{{file:{system_prompt_file}}}",
                    "permission": {"ao_answer_submit_answer": "allow"},
                },
                "title": {"disable": True},
            },
            "experimental": {"continue_loop_on_deny": True},
            "provider": {"anthropic": {"options": {"baseURL": "{ANTHROPIC_BASE_URL}/v1"}}},
        },
        "OPENCODE_PERMISSION": "{mcp_rules}",  # of two rules that fit, the later one counts
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "TMPDIR": "{folder}",  # it leaves libraries there
    },
    resumes=True,
    stays_in_folder=True,
    tells_cost=True,
    usual_retries=3,  # it waits 2 s before the first one, and twice as long before each other one
    told_error=(
        r'message="stream error".* small=false .*? error\.error'
        r'(?:="(?:AI_(?P<answered>APICall)?\w*Error: )?|\.)(?P<words>.*?)"?$'
    ),
    lost_race="Failed query",  # several first runs in one home create its database at the same time
    hides="cut off",
    counts_turns=True,
    errors={"internal error: model: ": ErrorType.MODEL_NOT_FOUND},  # all that it passes on of Anthropic's 404
    unknown_session=('"service": "session"', "session not found"),
)

QWEN: Final = AgentRow(
    name="qwen",
    argv=("qwen", "--acp", "--bare", "--approval-mode=default", "--auth-type=openai"),
    install_hint="npm install -g @qwen-code/qwen-code (Node 22 or newer)",
    credentials=("OPENAI_API_KEY",),
    settings=("OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_HOME", *_PROXIES),
    endpoints={"openai-chat": ("OPENAI_BASE_URL", "OPENAI_API_KEY")},
    variables={
        "OPENAI_MODEL": "{model}",
        # It tries each request seven times, and its library would try each of these four times.
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": {
            "file": {**_GEMINI_SETTINGS, "model": {"generationConfig": {"maxRetries": 0}}}
        },
        "QWEN_SYSTEM_MD": "{system_prompt_file}",
        "TMPDIR": "{folder}",  # it leaves a folder of sockets there
        "QWEN_USAGE_STATISTICS_ENABLED": "false",  # with `--bare`, the settings are read after statistics are sent
        "NO_BROWSER": "1",
    },
    lasting_options=("proceed_always_project", "proceed_always_user"),
    resumes=True,
    hides="cut off or refused",
    counts_turns=True,
    server_status="qwen/status/session/resources",
)

ANY: Final = AgentRow(
    name="acp",
    required=("command",),
    kept=("show_reasoning", "additional_folders"),
    folders_in_session=True,
)
