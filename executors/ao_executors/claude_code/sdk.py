"""The one door to the Claude Agent SDK.

The SDK can serve tools from this process and imports `mcp` and `jsonschema` for that, which is most of what its import
costs. We serve none, so `mcp` is left out, and `jsonschema`, which has other users here, is deferred
(docs/decisions/claude-code.md). The rest is imported after `run_started` is written and the invocation is checked.
"""

from ao_executors.claude_code.lean_import import deferred, import_without

with deferred("jsonschema"):
    import_without("claude_agent_sdk", unused="mcp")

from claude_agent_sdk import (  # it is there now
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    ProcessError,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Transport,
    UserMessage,
)

__all__ = [
    "AssistantMessage",
    "ClaudeAgentOptions",
    "ClaudeSDKClient",
    "ClaudeSDKError",
    "ProcessError",
    "ResultMessage",
    "SystemMessage",
    "TextBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "Transport",
    "UserMessage",
]
