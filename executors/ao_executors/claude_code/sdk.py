"""The only module that imports the Claude Agent SDK.

The SDK can serve tools from this process. For that it imports `mcp` and `jsonschema`, which is most of the cost of its
import. This executor serves none, so `mcp` is left out, and `jsonschema`, which other modules use, is deferred
(docs/decisions/claude-code.md). The rest is imported after `run_started` is written and the invocation is checked.
"""

from ao_executors.claude_code.lean_import import deferred, import_without

with deferred("jsonschema"):
    import_without("claude_agent_sdk", unused="mcp")

from claude_agent_sdk import (  # loaded by now
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLIConnectionError,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    RateLimitEvent,
    RateLimitInfo,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    Transport,
    UserMessage,
)

__all__ = [
    "AssistantMessage",
    "CLIConnectionError",
    "ClaudeAgentOptions",
    "ClaudeSDKClient",
    "ClaudeSDKError",
    "HookMatcher",
    "PermissionResultAllow",
    "PermissionResultDeny",
    "ProcessError",
    "RateLimitEvent",
    "RateLimitInfo",
    "ResultMessage",
    "StreamEvent",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "ToolPermissionContext",
    "ToolResultBlock",
    "ToolUseBlock",
    "Transport",
    "UserMessage",
]
