"""The names of fences and tags that say whether what they hold is the answer."""

from typing import Final

ANSWER_TAGS: Final = frozenset(
    {
        "answer",
        "final",
        "final_answer",
        "final_output",
        "final_result",
        "json",
        "json_output",
        "output",
        "response",
        "result",
        "structured_output",
        "structured_response",
    }
)

THINKING_TAGS: Final = frozenset(
    {
        "analysis",
        "inner_monologue",
        "reasoning",
        "reflection",
        "scratchpad",
        "think",
        "thinking",
        "thought",
        "thoughts",
    }
)
"""A model's own reasoning. One that is not closed reaches to the end: the model never came to the answer."""

TOOL_TAGS: Final = frozenset(
    {
        "function_call",
        "function_calls",
        "function_result",
        "function_results",
        "invoke",
        "observation",
        "tool",
        "tool_call",
        "tool_calls",
        "tool_output",
        "tool_response",
        "tool_result",
        "tool_results",
        "tool_use",
    }
)
"""Words to or from a tool. The names are unmistakable, so one that is not closed reaches to the end too."""

QUOTED_TAGS: Final = frozenset(
    {
        "context",
        "document",
        "documents",
        "draft",
        "example",
        "examples",
        "input",
        "inputs",
        "instructions",
        "output_format",
        "parameters",
        "prompt",
        "quote",
        "sample",
        "schema",
        "search_results",
        "source",
        "system",
        "system_prompt",
        "template",
        "user",
        "user_input",
    }
)
"""Other people's words and illustrations. Some are words of HTML, so only a closed one counts."""

KNOWN_TAGS: Final = ANSWER_TAGS | THINKING_TAGS | TOOL_TAGS | QUOTED_TAGS

DOCUMENT_LANGUAGES: Final = frozenset(
    {
        "",
        "console",
        "html",
        "markdown",
        "md",
        "none",
        "output",
        "plain",
        "plaintext",
        "raw",
        "text",
        "txt",
        "xhtml",
        "xml",
    }
)
"""Fence languages that say nothing about JSON, in which tags are looked for as in the text itself."""
