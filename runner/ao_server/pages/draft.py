"""The text of an agent as somebody types it: the document that it stands for, and what is wrong with it, where."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pydantic import BaseModel, field_validator

from ao_protocol.contracts import InvalidSchema, Problem, check_schema, validate
from ao_protocol.json_path import ROOT, below
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, parse_json
from ao_runner.named_schemas.vetting import remarks_on
from ao_server.agent_documents import AGENT_NAME, NAME_EXPECTED, problems_of_agent, remarks_on_agent
from ao_server.pages.form_fields import MISSING
from ao_server.pages.samples import sample_of

MOST_CHARACTERS_WITH_LINES: Final = 64 * 1024
TEXTS: Final = ("name", "description", "type", "profile", "system_prompt", "command")
ANSWERS: Final = {
    "output_schema": "JSON by this schema, always",
    "default_output_schema": "JSON by this schema, unless the run asks for another",
    "xml": "An agent response, as XML",
    "json": "An agent response, as JSON",
    "markdown": "An agent response, as Markdown",
}
_FIELDS: Final = {
    "parameters_schema": "input_schema", "output_schema": "output_schema", "default_output_schema": "output_schema",
    "output_format": "answer", "tags": "tags", "timeout_seconds": "timeout_seconds",
    "mcp_servers": "mcp_servers", **{name: name for name in TEXTS},
}  # fmt: skip
_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})
"""Keywords whose problem says less than those of the alternatives beside it."""
_STEP: Final = re.compile(r"\$\.([A-Za-z_]+)")


@dataclass(frozen=True, slots=True)
class PlacedRemark:
    """A sentence about a text: the path that it is about, and the line if that is known."""

    path: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CheckedText:
    """What came of checking a JSON text. `value` is None if it is empty or not JSON."""

    value: JsonObject | None = None
    problems: Sequence[PlacedRemark] = ()
    remarks: Sequence[PlacedRemark] = ()


class Draft(BaseModel):
    """The fields of the form. The samples are not part of the agent."""

    name: str = ""
    description: str = ""
    type: str = "autonomous"
    profile: str = ""
    system_prompt: str = ""
    command: str = ""
    tags: str = ""
    timeout_seconds: str = ""
    input_schema: str = ""
    answer: str = "output_schema"
    output_schema: str = ""
    mcp_servers: str = ""
    other: str = ""
    input_sample: str = ""
    output_sample: str = ""
    editing: str = ""
    """The name of the agent that is changed; empty for a new one."""
    base: str = ""
    """When the agent was changed before, as the page has seen it."""

    @field_validator("*")
    @classmethod
    def _with_plain_line_ends(cls, text: str) -> str:
        return text.replace("\r\n", "\n").encode(errors="replace").decode()

    @classmethod
    def of(cls, document: JsonObject, *, editing: str = "", base: str = "") -> Self:
        """Return the form of a document. What the form has no field for goes to `other`."""
        left: dict[str, Any] = dict(document)
        given = {name: str(left.pop(name) or "") for name in TEXTS if name in left}
        draft = cls(**given, editing=editing, base=base)
        tags = left.get("tags") or []
        if not any("," in tag for tag in tags):
            draft.tags = ", ".join(left.pop("tags", None) or [])
        if (seconds := left.pop("timeout_seconds", None)) is not None:
            draft.timeout_seconds = json.dumps(seconds)
        if (schema := left.pop("parameters_schema", None)) is not None:
            draft.input_schema = written(schema)
        for name in ("output_schema", "default_output_schema"):
            if not draft.output_schema and (schema := left.pop(name, None)) is not None:
                draft.answer, draft.output_schema = name, written(schema)
        if isinstance(left.get("mcp_servers"), dict):  # other forms stay beside the other fields
            draft.mcp_servers = written(left.pop("mcp_servers"))
        answer = left.get("output_format")
        if isinstance(answer, dict) and not draft.output_schema:
            draft.answer = str(left.pop("output_format").get("form", "xml"))
        draft.other = written(left) if left else ""
        return draft


def written(value: object) -> str:
    """Return JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def checked_json(text: str) -> CheckedText:
    """Return the object that a text contains, or what is wrong with the text."""
    if not text.strip():
        return CheckedText()
    try:
        value = parse_json(text)
    except NotInteroperable as error:
        message = str(error) if error.line is None else f"not JSON: {error}"
        return CheckedText(None, [PlacedRemark(ROOT, message, error.line)])
    if not isinstance(value, dict):
        return CheckedText(None, [PlacedRemark(ROOT, "expected a JSON object: { … }", 1)])
    return CheckedText(value)


def checked_schema(text: str) -> CheckedText:
    """Return the same for a schema, with remarks on keywords that have no effect."""
    verdict = checked_json(text)
    if verdict.value is None:
        return verdict
    lines = lines_of(text)
    try:
        check_schema(verdict.value)
    except InvalidSchema as error:
        told = {one.path for one in error.problems if one.keyword not in _ALTERNATIVES}
        clear = [one for one in error.problems if one.path not in told or one.keyword not in _ALTERNATIVES]
        return CheckedText(verdict.value, [_placed(one, lines) for one in clear])
    remarks = (one.partition(": ") for one in remarks_on(verdict.value))
    return CheckedText(verdict.value, (), [PlacedRemark(path, said, lines.get(path)) for path, _, said in remarks])


def checked_sample(text: str, schema: CheckedText) -> CheckedText | None:
    """Return what is wrong with a value under a schema; None if there is nothing to check."""
    if not text.strip() or schema.value is None or schema.problems:
        return None
    try:
        value = parse_json(text)
    except NotInteroperable as error:
        return CheckedText(None, [PlacedRemark(ROOT, f"not JSON: {error}")])
    lines = lines_of(text)
    return CheckedText({}, [_placed(one, lines) for one in validate(value, schema.value)])


def filled_sample(schema: CheckedText) -> str:
    """Return a value to begin with, as text; empty if the schema cannot be used."""
    if schema.value is None or schema.problems:
        return ""
    return json.dumps(sample_of(schema.value), indent=2, ensure_ascii=False)


def _placed(problem: Problem, lines: Mapping[str, int]) -> PlacedRemark:
    return PlacedRemark(problem.path, problem.message, lines.get(problem.path))


def lines_of(text: str) -> dict[str, int]:
    """Return the line of each path of a JSON text, which a YAML parser knows; nothing for a very long text."""
    import yaml

    if len(text) > MOST_CHARACTERS_WITH_LINES:
        return {}

    def walk(node: Any, place: str) -> Iterator[tuple[str, int]]:  # noqa: ANN401  # `yaml` has no types
        yield place, node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            for key, member in node.value:
                path = below(place, key.value)
                yield from walk(member, path)
                yield path, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                yield from walk(item, below(place, index))

    try:
        return dict(walk(yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), ROOT))
    except (yaml.YAMLError, ValueError):
        return {}


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check of a draft has found. Problems are by the field of the form."""

    document: JsonObject
    input: CheckedText
    output: CheckedText
    problems: dict[str, list[PlacedRemark]] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def add(self, name: str, problem: PlacedRemark) -> None:
        """Add a problem of a field."""
        if problem not in self.problems.setdefault(name, []):
            self.problems[name].append(problem)

    @property
    def count(self) -> int:
        """The number of problems."""
        return sum(map(len, self.problems.values()))

    def count_in(self, tab: str) -> int:
        """Return the number of problems in a tab."""
        return sum(len(found) for name, found in self.problems.items() if tab_of(name) == tab)


def tab_of(name: str) -> str:
    """Return the tab with a field."""
    return {"input_schema": "input", "output_schema": "output", "answer": "output", "mcp_servers": "mcp"}.get(
        name, "general"
    )


def findings_of(draft: Draft) -> Findings:
    """Check a draft."""
    given, answered = checked_schema(draft.input_schema), checked_schema(draft.output_schema)
    other, servers = checked_json(draft.other), checked_json(draft.mcp_servers)
    own = _document(draft, given, answered, servers)
    findings = Findings({**(other.value or {}), **own}, given, answered)
    for name, verdict in (
        ("input_schema", given),
        ("output_schema", answered),
        ("other", other),
        ("mcp_servers", servers),
    ):
        for problem in verdict.problems:
            findings.add(name, problem)
    for name in other.value or {}:
        if name in own:
            findings.add(
                "other", PlacedRemark(below(ROOT, name), "has a field of its own in this form; write it there")
            )
    if not re.fullmatch(AGENT_NAME, draft.name):
        said = f"{NAME_EXPECTED}, found {draft.name[:100]!r}" if draft.name else "is missing"
        findings.add("name", PlacedRemark("$.name", said))
    for one in problems_of_agent(findings.document):
        missing = MISSING.fullmatch(one.message)
        step = _STEP.match(one.path if missing is None else below(one.path, missing[1]))
        place = _FIELDS.get(step[1], "other") if step else "answer"
        if place not in {"input_schema", "output_schema"} and not (place == "name" and "name" in findings.problems):
            findings.add(place, PlacedRemark(one.path, one.message))
    if findings.count:
        return findings
    schemas = ("$.parameters_schema", "$.output_schema", "$.default_output_schema")
    remarks = [one for one in remarks_on_agent(findings.document) if not one.startswith(schemas)]
    return Findings(findings.document, given, answered, {}, remarks)


def _document(draft: Draft, given: CheckedText, answered: CheckedText, servers: CheckedText) -> JsonObject:
    """Return what the fields say. A schema that is none is left out: it is among the problems."""
    document: JsonObject = {name: text for name in TEXTS if (text := getattr(draft, name))}
    if given.value is not None:
        document["parameters_schema"] = given.value
    if answered.value is not None:
        is_default = draft.answer == "default_output_schema"
        document["default_output_schema" if is_default else "output_schema"] = answered.value
    if servers.value is not None:
        document["mcp_servers"] = servers.value
    if draft.answer in {"xml", "json", "markdown"}:
        document["output_format"] = {"type": "agent_response", "form": draft.answer}
    if tags := [tag.strip() for tag in draft.tags.split(",") if tag.strip()]:
        document["tags"] = list(tags)
    if draft.timeout_seconds.strip():
        try:
            document["timeout_seconds"] = parse_json(draft.timeout_seconds)
        except NotInteroperable:
            document["timeout_seconds"] = draft.timeout_seconds
    return document
