"""Parts of a description: the capabilities of an executor, and the fields of its `executor_config`. Internal.

Each function for a field returns its JSON Schema. Further keywords of the schema, such as `default`, can be given.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

DEFAULT_MAX_API_RETRIES: Final = 4
DEFAULT_MAX_RETRY_DELAY_SECONDS: Final = 60.0


def capabilities(*names: str, strategies: Iterable[str], media_types: Iterable[str] = ()) -> dict[str, object]:
    """Return the capabilities of an executor.

    Args:
        names: The capabilities that it has as a whole.
        strategies: Those by which it keeps output contracts.
        media_types: Those of the attachments that it passes to the agent.
    """
    attachments = {"attachments": {"media_types": list(media_types)}} if media_types else {}
    output_schema = {"strategies": [*strategies], "formats": ["agent_response"]}
    return {**dict.fromkeys(names, True), "output_schema": output_schema, **attachments}


def fields(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """Return the schema of a whole `executor_config`."""
    needs = {"required": list(required)} if required else {}
    return {"type": "object", **needs, "properties": dict(properties)}


def field(kind: str, description: str, **keywords: object) -> Schema:
    """Return the schema of a field of a JSON type."""
    return {"type": kind, **keywords, "description": description}


text = partial(field, "string")
integer = partial(field, "integer")
number = partial(field, "number")
table = partial(field, "object")


def name(description: str) -> Schema:
    """Return the schema of a text that is not empty."""
    return text(description, minLength=1)


def path(description: str) -> Schema:
    """Return the schema of an absolute path."""
    return text(description, pattern="^/")


def flag(description: str, *, default: bool) -> Schema:
    """Return the schema of a boolean."""
    return field("boolean", description, default=default)


def choice(description: str, values: Iterable[str], **keywords: object) -> Schema:
    """Return the schema of one of several texts."""
    return {"enum": list(values), **keywords, "description": description}


def array(description: str, items: Mapping[str, object], **keywords: object) -> Schema:
    """Return the schema of a list."""
    return field("array", description, items=dict(items), **keywords)


def argv(description: str) -> Schema:
    """Return the schema of a program and its arguments."""
    return array(description, {"type": "string", "pattern": "^[^\\u0000]*$"}, minItems=1)


def variables(of: str) -> Schema:
    """Return the schema of environment variables that override others; `of` says for whom, and which."""
    return table(f"Variables for {of}.", additionalProperties={"type": "string"})


REASONING_EFFORTS: Final = ("low", "medium", "high")
SHOW_REASONING: Final = flag("Report what the model thinks, as far as its provider shows it.", default=True)


def common_settings(*, efforts: Iterable[str] = REASONING_EFFORTS) -> dict[str, Schema]:
    """Return the fields that have one meaning in every executor (SPEC 7). An executor takes those that it keeps.

    Args:
        efforts: The values of `reasoning_effort`.
    """
    return {
        "model": name("The model, by the provider's name."),
        "reasoning_effort": choice("How much the model thinks before it answers.", efforts),
        "show_reasoning": SHOW_REASONING,
        "access": choice(
            "What the agent may do without a question: read, also change files in its folders, or anything.",
            ("read", "edit", "all"),
        ),
        "allowed_tools": array("Tools that need no question besides, by the agent's own names.", {"type": "string"}),
        "additional_folders": array("Folders beside project_dir in which the agent may work.", path("A folder.")),
    }


STREAMING: Final = flag("Report text while the model writes it; never under an output contract.", default=True)
MAX_TURNS: Final = integer("The lower of this and limits.max_turns applies.", minimum=1)


def api_retries(also: str = "", usual: int = DEFAULT_MAX_API_RETRIES) -> dict[str, Schema]:
    """Return the fields of a `RetryPolicy`. `also` is a sentence about another place that sets the number."""
    return {
        "max_api_retries": integer(f"Number of retries after transient API errors.{also}", minimum=0, default=usual),
        "max_retry_delay_seconds": number(
            "If the API requests a longer wait, the run ends instead.",
            minimum=0,
            default=DEFAULT_MAX_RETRY_DELAY_SECONDS,
        ),
    }
