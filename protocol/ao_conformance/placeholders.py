"""Fill the placeholders of a vector, and make the bytes of its invocation and the pieces in which they are written."""

import base64
import copy
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from ao_conformance.driver.transcript import OutputLine, event_type_of, member
from ao_conformance.subject import Subject
from ao_protocol.framing import NotIJson, decode_object, encode_line
from ao_protocol.inputs import format_inputs

TEXT: Final = re.compile(r"\$\{text:(\d+)\}")
WHOLE: Final = re.compile(r"\$\{(wrong_config|unserved_type|unspoken_major|newest_spoken|secret_variable)\}")
FIXED_ID: Final = re.compile(r"\b(run|ses)_[0-9]+\b")
"""An id of a run or a session in a vector. Each play replaces it by a fresh id, the same at every place."""
NOT_PREPARED: Final = frozenset({"run_id", "session_id"})
USUAL_LIMITS: Final = {"cancel_grace_seconds": 10, "max_event_bytes": 1_048_576}
"""Limits as a runner sends them."""


class CannotFill(ValueError):
    """A placeholder has no value for this executable, so the vector does not apply."""


class NoSession(ValueError):
    """The run before bound no session that can be resumed."""


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The values of the placeholders in one play."""

    subject: Subject
    project_dir: Path
    session: str | None = None
    request: str | None = None
    """The `request_id` of the last `input_requested`."""
    allowing_option: str | None = None
    """The `id` of its first option with the effect `allow`."""
    watched_url: str | None = None
    watched_file: str | None = None
    feeds: bool = False
    """Whether the suite completes each invocation as a conforming runner does."""
    play_id: uuid.UUID = field(default_factory=uuid.uuid4)
    """What the fresh ids of the play are made from."""

    def fill(self, value: Any) -> Any:  # noqa: ANN401  # any JSON
        """Return a value of a vector with all placeholders filled in.

        Raises:
            CannotFill: A placeholder has no value for this executable.
            NoSession: The value contains `${session}`, and no session is bound.
        """
        if isinstance(value, Mapping):
            return {name: self.fill(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.fill(inner) for inner in value]
        if not isinstance(value, str):
            return value
        value = FIXED_ID.sub(lambda found: f"{found[1]}_{uuid.uuid5(self.play_id, found[0]).hex[:12]}", value)
        if "${" not in value:
            return value
        if whole := WHOLE.fullmatch(value):
            return self._whole(whole[1])
        value = WHOLE.sub(lambda found: str(self._whole(found[1])), value)
        if "${session}" in value and self.session is None:
            raise NoSession
        for name in ("project_dir", "session", "request", "allowing_option", "watched_url", "watched_file"):
            value = value.replace(f"${{{name}}}", str(getattr(self, name) or ""))
        return TEXT.sub(lambda found: "x" * int(found[1]), value)

    def asked_in(self, lines: Sequence[OutputLine]) -> Self:
        """Return the placeholders with the values of the last `input_requested` among some lines, if there is one."""
        raw = next((line.raw for line in reversed(lines) if event_type_of(line.raw) == "input_requested"), None)
        if raw is None:
            return self
        options = member(raw, "options")
        said = [option for option in options if isinstance(option, Mapping)] if isinstance(options, list) else []
        allowing = next((option.get("id") for option in said if option.get("effect") == "allow"), None)
        request = member(raw, "request_id")
        return replace(
            self,
            request=request if isinstance(request, str) else None,
            allowing_option=allowing if isinstance(allowing, str) else None,
        )

    def invocation(self, vector: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
        """Return an invocation: the vector's fields, over what the agent's type needs, over the tester's base."""
        filled: dict[str, Any] = self.fill(document)
        base = copy.deepcopy(dict(self.subject.base))
        if self.subject.agent_type == "procedural" and "agent_blueprint" not in base:
            base["agent_blueprint"] = {"name": "conformance", "type": "procedural", "command": "answer"}
        whole = merged(base, filled)
        if self.feeds:
            project_dir = str(self.project_dir)
            usual = {"run_id": "run_1", "session_id": "ses_1", "project_dir": project_dir, "limits": USUAL_LIMITS}
            whole = merged(self.fill(usual), whole)
            whole = whole if self.subject.agent_type == "procedural" else with_prompt(whole)
        if size := vector.get("pad_to_bytes"):
            missing = size - (len(encode_line(merged(whole, {"metadata": {"padding": ""}}))) - 1)
            whole = merged(whole, {"metadata": {"padding": "x" * missing}})
        return whole

    def control_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Return a control line. The invocation in a `prepare` has the tester's base, as every other invocation."""
        filled: dict[str, Any] = self.fill(line)
        if filled.get("type") == "prepare":
            prepared = self.invocation({}, filled["invocation"])
            filled["invocation"] = {name: held for name, held in prepared.items() if name not in NOT_PREPARED}
        if filled.get("type") == "turn" and self.feeds:
            filled = with_prompt({**filled, "mode": "resume"})
            del filled["mode"]
        return filled

    def stdin(self, vector: Mapping[str, Any]) -> bytes:
        """Return the bytes of the first write.

        Raises:
            CannotFill: A placeholder has no value for this executable.
            NoSession: The bytes contain `${session}`, and no session is bound.
        """
        if "raw_stdin" in vector:
            return b"".join(self._raw(piece) for piece in vector["raw_stdin"])
        if "invocation" in vector:
            return encode_line(self.invocation(vector, vector["invocation"]))
        return b""

    def _raw(self, piece: Mapping[str, Any]) -> bytes:
        if "base64" in piece:
            return base64.b64decode(piece["base64"])
        if "invocation" in piece:
            line = encode_line(self.invocation({}, piece["invocation"])).removesuffix(b"\n")
            for mark, text in piece.get("with", {}).items():
                line = line.replace(json.dumps(mark).encode(), text.encode())
            return line
        return str(self.fill(piece["text"])).encode() * int(piece.get("times", 1))

    def _whole(self, name: str) -> Any:  # noqa: ANN401  # any JSON
        spoken = self.subject.description.get("schema_versions", [])
        match name:
            case "wrong_config":
                return _wrong_config(self.subject.description.get("config_schema"))
            case "unserved_type":
                unserved = [kind for kind in ("procedural", "autonomous") if kind not in self.subject.agent_types]
                if not unserved:
                    raise CannotFill("the executor serves agents of every type")
                return unserved[0]
            case "secret_variable":
                if self.subject.given_secret is None:
                    raise CannotFill("the description names no secret that the executor is given")
                return self.subject.given_secret
            case "newest_spoken":
                return next(iter(spoken), None)
        majors = {str(version).partition(".")[0] for version in spoken}
        unspoken = [str(major) for major in range(4, 100) if str(major) not in majors]
        return f"{unspoken[self.play_id.int % len(unspoken)]}.0"


def with_prompt(document: dict[str, Any]) -> dict[str, Any]:
    """Return an invocation or a turn with the text that the agent receives (SPEC 8), unless it already has one."""
    parameters = document.get("parameters")
    blueprint = document.get("agent_blueprint")
    if "prompt" in document or not isinstance(parameters, Mapping):
        return document
    if document.get("mode") == "start" and isinstance(blueprint, Mapping) and blueprint.get("parameters_schema"):
        return {**document, "prompt": format_inputs(dict(parameters))}
    prompt = parameters.get("prompt")
    return {**document, "prompt": prompt} if isinstance(prompt, str) and prompt else document


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both documents, the second over the first; objects are merged field by field."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        both = isinstance(under, Mapping) and isinstance(value, Mapping)
        result[name] = merged(under, value) if both and under is not None else value
    return result


def _wrong_config(schema: object) -> dict[str, Any]:
    """Return a configuration that violates a schema: one property has a wrong value.

    Raises:
        CannotFill: The schema defines no property that a value can violate.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, rule in (properties or {}).items():
        kinds = rule.get("type") if isinstance(rule, Mapping) else None
        if isinstance(kinds, str):
            return {name: 12345 if kinds not in {"integer", "number"} else "no number"}
        if isinstance(rule, Mapping) and "enum" in rule:
            return {name: {"no": "such value"}}
    raise CannotFill("the config_schema says nothing that a configuration could violate")


def invocation_in(data: bytes) -> Mapping[str, object] | None:
    """Return the invocation on the first line that is not blank; None if that is not a JSON object in I-JSON."""
    line = next((line for line in data.split(b"\n") if line.strip()), b"")
    try:
        return decode_object(line.removesuffix(b"\r"))
    except NotIJson:
        return None


def input_chunks(data: bytes, how: str) -> Iterator[bytes]:
    """Yield the pieces of the first write, cut as the vector demands."""
    begin = 0
    for end in range(1, len(data)):
        if (
            how == "bytes"
            or (how == "inside_characters" and data[end] & 0xC0 == 0x80)
            or (how == "line_ends" and data[end - 1 : end + 1] == b"\r\n")
        ):
            yield data[begin:end]
            begin = end
    yield data[begin:]
