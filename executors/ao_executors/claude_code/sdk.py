"""The one door to the Claude Agent SDK.

Importing this module takes most of a second (measured: docs/decisions/claude-code.md), so it is imported after
`run_started` is out and the invocation has been checked.
"""

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    HookMatcher,
    ProcessError,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    Transport,
    UserMessage,
)

__all__ = [
    "AssistantMessage",
    "ClaudeAgentOptions",
    "ClaudeSDKClient",
    "ClaudeSDKError",
    "HookMatcher",
    "ProcessError",
    "ResultMessage",
    "SystemMessage",
    "TextBlock",
    "ToolResultBlock",
    "Transport",
    "UserMessage",
]
