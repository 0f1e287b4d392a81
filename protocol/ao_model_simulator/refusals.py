"""What the services refuse before they ask a model: schemas, tools and conversations, each with the service's words.

Each rule has its source: a public report, or a guide of the service. A rule that only some models or versions have is
not here. The functions yield refusals; the service tells the first one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from ao_model_simulator.provider import ModelError, read_object, read_objects

JsonObject = Mapping[str, Any]

_OPENAI_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_OPENAI_NAME_CHARACTERS: Final = 64
_NOT_PERMITTED: Final = (
    *("allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "patternProperties"),
    *("prefixItems", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_NOT_AT_THE_TOP: Final = ("oneOf", "anyOf", "allOf", "enum", "not")
_LEVELS, _PROPERTIES, _VALUES, _CHARACTERS = 10, 5_000, 1_000, 120_000


def strict_problems(schema: object) -> Iterator[str]:
    """Yield the problems of a schema in OpenAI's strict dialect.

    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas; openai/openai-python#1637 (`$ref`),
    can1357/oh-my-pi#211 (`type`), sigoden/aichat#1049 (`items`), ai-dynamo/dynamo#15153 (`oneOf`).
    """
    root = read_object(schema)
    if root.get("type") != "object" or "anyOf" in root:
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{root.get('type')}\"'."
        return
    nodes = list(_nodes(root, ()))
    for context, node in nodes:
        yield from (f"In context={context}, {problem}" for problem in _strict_problems_of(node))
    yield from _excesses(nodes)


def _nodes(node: object, context: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    yield context, node
    schema = read_object(node)
    for keyword in ("properties", "$defs", "definitions"):
        for name, below in read_object(schema.get(keyword)).items():
            yield from _nodes(below, (*context, keyword, name))
    branches = schema.get("anyOf")
    for index, branch in enumerate(branches if isinstance(branches, list) else ()):
        yield from _nodes(branch, (*context, "anyOf", str(index)))
    if "items" in schema:
        yield from _nodes(schema["items"], (*context, "items"))


def _strict_problems_of(node: object) -> Iterator[str]:
    schema = read_object(node)
    if "$ref" in schema:
        beside = ", ".join(f"'{keyword}'" for keyword in sorted(schema) if keyword != "$ref")
        if beside:
            yield f"$ref cannot have keywords {{{beside}}}."
        return
    yield from (f"'{keyword}' is not permitted." for keyword in _NOT_PERMITTED if keyword in schema)
    if "type" not in schema and "anyOf" not in schema:
        yield "schema must have a 'type' key."
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "object" in kinds:
        if schema.get("additionalProperties") is not False:
            yield "'additionalProperties' is required to be supplied and to be false."
        named, required = read_object(schema.get("properties")), schema.get("required")
        given = required if isinstance(required, list) else []
        if missing := next((name for name in named if name not in given), None):
            every = "'required' is required to be supplied and to be an array including every key in properties."
            yield f"{every} Missing '{missing}'."
        if extra := next((name for name in given if name not in named), None):
            yield f"Extra required key '{extra}' supplied."
    if "array" in kinds and "items" not in schema:
        yield "array schema missing items."


def _excesses(nodes: Sequence[tuple[tuple[str, ...], object]]) -> Iterator[str]:
    levels = max(1 + sum(part in {"properties", "items"} for part in context[::2]) for context, _ in nodes)
    schemas = [read_object(node) for _, node in nodes]
    names = [name for one in schemas for key in ("properties", "$defs") for name in read_object(one.get(key))]
    values = [value for one in schemas for value in one.get("enum", ())]
    found = (
        (levels - 1, _LEVELS, "levels of nesting"),
        (sum(len(read_object(one.get("properties"))) for one in schemas), _PROPERTIES, "object properties"),
        (len(values), _VALUES, "enum values"),
        (sum(len(str(text)) for text in (*names, *values)), _CHARACTERS, "characters of names and enum values"),
    )
    yield from (f"{count} {what} exceeds limit of {limit}." for count, limit, what in found if count > limit)


def openai_tool_refusals(tools: Sequence[tuple[str, JsonObject]]) -> Iterator[ModelError]:
    """Yield the refusals of function tools, each given with the path of its definition, such as `tools[0].function`.

    Vortiago/mcp-azure-devops#30 (names), nspady/google-calendar-mcp#39 (top level), sigoden/aichat#1049 (`items`).
    """
    for path, tool in tools:
        name, parameters = str(tool.get("name")), tool.get("parameters")
        where = f"{path}.name"
        if not _OPENAI_NAME.fullmatch(name):
            pattern = "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            words = f"Invalid '{where}': string does not match pattern. {pattern}"
            yield ModelError(400, words, code="invalid_value", param=where)
        if len(name) > _OPENAI_NAME_CHARACTERS:
            expected = f"Expected a string with maximum length {_OPENAI_NAME_CHARACTERS}"
            words = f"Invalid '{where}': string too long. {expected}, but got a string with length {len(name)} instead."
            yield ModelError(400, words, code="string_above_max_length", param=where)
        if parameters is None:
            continue
        problems = strict_problems(parameters) if tool.get("strict") is True else _function_problems(parameters)
        for problem in problems:
            words = f"Invalid schema for function '{name}': {problem}"
            yield ModelError(400, words, code="invalid_function_parameters", param=f"{path}.parameters")


def _function_problems(parameters: object) -> Iterator[str]:
    root = read_object(parameters)
    if root.get("type") != "object" or any(keyword in root for keyword in _NOT_AT_THE_TOP):
        listed = "/".join(f"'{keyword}'" for keyword in _NOT_AT_THE_TOP)
        yield f"schema must have type 'object' and not have {listed} at the top level."
    for context, node in _nodes(root, ()):
        if read_object(node).get("type") == "array" and "items" not in read_object(node):
            yield f"In context={context}, array schema missing items."


def response_format_refusals(name: object, schema: object, param: str, code: str | None) -> Iterator[ModelError]:
    """Yield the refusals of a strict schema for the answer."""
    for problem in strict_problems(schema):
        yield ModelError(400, f"Invalid schema for response_format '{name}': {problem}", code=code, param=param)


def unpaired(calls: Sequence[str], results: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the calls without a result, and the results without a call."""
    return [call for call in calls if call not in results], [result for result in results if result not in calls]


def chat_turn_refusals(messages: Sequence[JsonObject]) -> Iterator[ModelError]:
    """Yield the refusal of tool calls that are not followed by their results, and of results without a call."""
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            continue
        following = takewhile(lambda one: one.get("role") == "tool", messages[index + 1 :])
        results = [str(one.get("tool_call_id")) for one in following]
        calls = [str(call.get("id")) for call in read_objects(message.get("tool_calls"))]
        open_calls, orphans = unpaired(calls, results)
        if open_calls:
            rule = "must be followed by tool messages responding to each 'tool_call_id'"
            missing = f"The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
            yield ModelError(400, f"An assistant message with 'tool_calls' {rule}. {missing}", param="messages")
        if orphans and not calls:
            rule = "must be a response to a preceeding message with 'tool_calls'"
            words = f"Invalid parameter: messages with role 'tool' {rule}."
            yield ModelError(400, words, param=f"messages.[{index + 1}].role")


_ANTHROPIC_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_UNSUPPORTED: Final = {
    "integer": ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"),
    "number": ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"),
    "string": ("maxLength", "minLength"),
    "array": ("maxItems", "uniqueItems"),
}


def anthropic_refusals(fields: JsonObject) -> Iterator[ModelError]:
    """Yield the refusals of a request to the Messages API.

    anthropics/claude-code#10687 (unique names), modelcontextprotocol/modelcontextprotocol#1345 (names),
    Kilo-Org/kilocode#12238 (`type`), anthropics/claude-code#5319 (top level), #59812 (empty text), #8210 and #18947
    (calls and results), veryfront/veryfront-code#3918 and agentjido/req_llm#302, #706 (structured output).
    """
    yield from _anthropic_tools(read_objects(fields.get("tools")))
    yield from _anthropic_conversation(read_objects(fields.get("messages")))
    wanted = read_object(read_object(fields.get("output_config")).get("format"))
    for _, node in _nodes(wanted.get("schema"), ()) if "schema" in wanted else ():
        schema = read_object(node)
        kind = schema.get("type")
        if kind == "object" and schema.get("additionalProperties") is not False:
            words = "For 'object' type, 'additionalProperties' must be explicitly set to false"
            yield ModelError(400, f"output_config.format.schema: {words}")
        for keyword in _UNSUPPORTED.get(str(kind), ()):
            if keyword in schema:
                words = f"For '{kind}' type, property '{keyword}' is not supported"
                yield ModelError(400, f"output_config.format.schema: {words}")


def _anthropic_tools(tools: Sequence[JsonObject]) -> Iterator[ModelError]:
    names = Counter(str(tool.get("name")) for tool in tools)
    if any(times > 1 for times in names.values()):
        yield ModelError(400, "tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if tool.get("type", "custom") != "custom":
            continue
        place, schema = f"tools.{index}.custom", read_object(tool.get("input_schema"))
        if not _ANTHROPIC_NAME.fullmatch(str(tool.get("name"))):
            yield ModelError(400, f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if "type" not in schema:
            yield ModelError(400, f"{place}.input_schema.type: Field required")
        elif schema["type"] != "object":
            yield ModelError(400, f"{place}.input_schema.type: Input should be 'object'")
        if not {"oneOf", "allOf", "anyOf"}.isdisjoint(schema):
            words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            yield ModelError(400, f"{place}.input_schema: {words}")


def _anthropic_conversation(messages: Sequence[JsonObject]) -> Iterator[ModelError]:
    turns = [(n, read_objects(one.get("content"))) for n, one in enumerate(messages) if one.get("role") != "system"]
    for turn, (index, blocks) in enumerate(turns):
        if any(block.get("type") == "text" and block.get("text") == "" for block in blocks):
            yield ModelError(400, "messages: text content blocks must be non-empty")
        before = turns[turn - 1][1] if turn else []
        following = turns[turn + 1][1] if turn + 1 < len(turns) else []
        calls = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        open_calls, _ = unpaired(calls, _result_ids(following))
        if open_calls:
            each = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            found = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(open_calls)}"
            yield ModelError(400, f"messages.{index}: {found}. {each}")
        called = [str(block.get("id")) for block in before if block.get("type") == "tool_use"]
        for result in unpaired(called, _result_ids(blocks))[1]:
            at = next(n for n, block in enumerate(blocks) if block.get("tool_use_id") == result)
            each = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            found = f"unexpected `tool_use_id` found in `tool_result` blocks: {result}"
            yield ModelError(400, f"messages.{index}.content.{at}: {found}. {each}")


def _result_ids(blocks: Sequence[JsonObject]) -> list[str]:
    return [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]


_GEMINI_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_GEMINI_NAME_RULE: Final = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores "
    "(_), dots (.) or dashes (-), with a maximum length of 64."
)
_GEMINI_UNKNOWN: Final = ("$defs", "$id", "$ref", "$schema", "allOf", "const", "exclusiveMaximum", "exclusiveMinimum",
    "not", "oneOf", "patternProperties", "uniqueItems")  # fmt: skip
"""Keywords of JSON Schema that the API's `Schema` does not have."""


def gemini_schema_refusals(schema: object, path: str) -> Iterator[ModelError]:
    """Yield the refusals of a schema in the dialect of the Gemini API: `parameters` and `responseSchema`.

    zed-industries/zed#44875 (unknown fields), browser-use/browser-use#3786 (empty), anomalyco/opencode#11889 (others).
    """
    node = read_object(schema)
    for keyword in _GEMINI_UNKNOWN:
        if keyword in node:
            words = f"Invalid JSON payload received. Unknown name \"{keyword}\" at '{path}': Cannot find field."
            yield ModelError(400, words)
    kind, properties = str(node.get("type", "")).upper(), read_object(node.get("properties"))
    place = f"* GenerateContentRequest.{path}"
    if kind == "OBJECT" and not properties and path.startswith("generation_config"):
        yield ModelError(400, f"{place}.properties: should be non-empty for OBJECT type\n")
    if kind not in {"", "OBJECT"}:
        for name in ("properties", "required"):
            if name in node:
                yield ModelError(400, f"{place}.{name}: only allowed for OBJECT type")
    for index, below in enumerate(properties.values()):
        yield from gemini_schema_refusals(below, f"{path}.properties[{index}].value")
    if "items" in node:
        yield from gemini_schema_refusals(node["items"], f"{path}.items")
    for index, branch in enumerate(read_objects(node.get("anyOf"))):
        yield from gemini_schema_refusals(branch, f"{path}.any_of[{index}]")


def gemini_name_refusal(name: object, path: str) -> Iterator[ModelError]:
    """Yield the refusal of a function's name (google-gemini/gemini-cli#2966)."""
    if not _GEMINI_NAME.fullmatch(str(name)):
        yield ModelError(400, f"* GenerateContentRequest.{path}.name: {_GEMINI_NAME_RULE}")


def gemini_turn_refusals(counts: Sequence[tuple[int, int]]) -> Iterator[ModelError]:
    """Yield the refusal of a turn whose results are not as many as its calls (google-gemini/gemini-cli#16415).

    Args:
        counts: The number of function calls and of function responses in each content.
    """
    for index, (calls, _) in enumerate(counts):
        results = counts[index + 1][1] if index + 1 < len(counts) else 0
        if calls and calls != results:
            words = "Please ensure that the number of function response parts is equal to the number of function call"
            yield ModelError(400, f"{words} parts of the function call turn.")
