"""Provide a stand-in for the model while a vector is played.

It is the simulator, a script, the command of a procedural agent, or an executor that answers with its prompt (SPEC 12).
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ao_conformance.driver.transcript import OutputLine, is_terminal, member
from ao_conformance.placeholders import Placeholders
from ao_conformance.subject import USUAL_SHELL_TOOL, Subject
from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import Reason

if TYPE_CHECKING:
    from ao_model_simulator import ModelSimulator

ECHO: Final = {"AO_CONFORM_ECHO": "1"}
LINGER: Final = "AO_CONFORM_LINGER_SECONDS"
NO_ECHO: Final = f"{Reason.NO_MODEL}, and result_text does not repeat the prompt where AO_CONFORM_ECHO is set (SPEC 12)"
SPOKEN: Final = frozenset({"text", "json", "stop_reason", "repeat", "tools"})
"""The only fields of an answer that the script of an executor can express."""
CUT: Final = "max_tokens"
MODEL_URL: Final = "${model_url}"
"""In the `environment` of a vector, the placeholder for the name of the variable with the model's address."""
GREETING: Final = "Hello."


def wanted_prompt(model_script: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the script's expectation for the prompt; None if it has none, or if it needs more of the model."""
    answers: Sequence[Mapping[str, Any]] = (model_script or {}).get("answers", ())
    if len(answers) != 1 or answers[0].keys() - {"text", "expect"}:
        return None
    expected: Mapping[str, Any] = answers[0].get("expect", {})
    return expected if expected and all(name.startswith("last_user_") for name in expected) else None


def find_wrong_prompt(wanted: Mapping[str, Any], lines: Sequence[OutputLine]) -> list[str]:
    """Return a sentence for each expectation that an echoed prompt does not meet; empty if no whole prompt came."""
    from ao_model_simulator import Expectation, ModelRequest, find_mismatches

    text = echoed(lines)
    if text is None:
        return []
    request = ModelRequest("POST", "/v1/messages", {}, {"messages": [{"role": "user", "content": text}]})
    wrong = find_mismatches(Expectation.model_validate(wanted), request)
    return [f"in result_text, which repeats it: {sentence.partition(': ')[2]}" for sentence in wrong]


def echoed(lines: Sequence[OutputLine]) -> str | None:
    """Return `result_text` of the last terminal event; None if no such event came or it is truncated."""
    last = next((line.raw for line in reversed(lines) if is_terminal(line.raw)), b"")
    text = member(last, "result_text")
    return text if isinstance(text, str) and member(last, "truncated") is not True else None


class NoModel(ValueError):
    """The vector scripts the model, and the model of this executable cannot be simulated."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """The stand-in for the model in one play."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that connect the executable to the stand-in."""
    simulator: "ModelSimulator | None" = None
    url_variable: str | None = None
    """The name of the variable that holds the address."""
    is_echo: bool = False
    """Whether the executable answers with its prompt."""

    @property
    def requests(self) -> int:
        """The number of requests to the model."""
        return len(self.simulator.requests) if self.simulator else 0


@contextlib.contextmanager
def stand_in(subject: Subject, vector: ProcessVector, folder: Path) -> Iterator[StandIn]:
    """Provide a stand-in for the model inside a `with` block.

    Raises:
        NoModel: The vector scripts the model, the description names no endpoint that can be simulated, and an echo
            does not show what the vector tests, or the executable has none.
    """
    if vector.model_script is not None:
        script = _with_shell_tool(Placeholders(subject, folder).fill(vector.model_script), subject.shell_tool)
        vector = replace(vector, source={**vector.source, "model_script": script})
    if (kind := subject.model_kind) is not None and (named := subject.model_variables(kind)) is not None:
        from ao_model_simulator import ModelSimulator, Script

        usual = {"text": GREETING, "delay_seconds": vector.works_for_seconds, "repeat": "forever"}
        with ModelSimulator(Script.model_validate(vector.model_script or {"answers": [usual]})) as simulator:
            variables = {named["env"]: simulator.base_url(kind)}
            if key := named.get("api_key_env"):
                variables[key] = subject.secret_of(key)
            yield StandIn(variables, simulator, named["env"])
    elif (variable := subject.script_variable) is not None:
        yield StandIn({variable: str(_write_script(folder.parent / "model-script.json", vector)), **_lingering(vector)})
    elif subject.agent_type == "procedural":
        _write_command(folder, vector)
        yield StandIn()
    elif vector.model_script is not None and subject.echoes and wanted_prompt(vector.model_script) is not None:
        yield StandIn(ECHO, is_echo=True)
    elif vector.model_script is not None:
        raise NoModel(Reason.NO_MODEL if wanted_prompt(vector.model_script) is None or subject.echoes else NO_ECHO)
    else:
        yield StandIn(_lingering(vector))


def _with_shell_tool(value: Any, tool: tuple[str, str]) -> Any:  # noqa: ANN401  # any JSON
    """Return a script whose calls of the usual shell tool are calls of another one."""
    if isinstance(value, list):
        return [_with_shell_tool(inner, tool) for inner in value]
    if not isinstance(value, dict):
        return value
    name, field = USUAL_SHELL_TOOL
    if value.get("type") == "tool_use" and value.get("name") == name:
        given = {tool[1] if key == field else key: inner for key, inner in value.get("input", {}).items()}
        return {**value, "name": tool[0], "input": given}
    return {key: _with_shell_tool(inner, tool) for key, inner in value.items()}


def _lingering(vector: ProcessVector) -> dict[str, str]:
    return {LINGER: f"{vector.works_for_seconds:g}"} if vector.works_for_seconds else {}


def _write_script(path: Path, vector: ProcessVector) -> Path:
    """Write the script for an executor that plays one itself.

    Raises:
        NoModel: The vector's model calls tools or fails, or the vector tests the requests to it.
    """
    answers = vector.model_script["answers"] if vector.model_script else [{"text": GREETING, "repeat": "forever"}]
    asks_for_a_url = MODEL_URL in vector.source.get("environment", {})
    if (vector.capability or "").startswith("input"):
        answers = [_asked_first(answer) for answer in answers]
    if asks_for_a_url or any(answer.keys() - SPOKEN or answer.get("stop_reason", CUT) != CUT for answer in answers):
        raise NoModel("the vector looks at what the model was asked, or lets it do more than answer")
    spoken = [
        {name: value for name, value in answer.items() if name in {"text", "json", "tools"}}
        | ({"truncated": True} if answer.get("stop_reason") == CUT else {})
        for answer in answers
    ]
    repeats = any(answer.get("repeat") == "forever" for answer in answers)
    path.write_text(json.dumps({"answers": spoken, "repeat": repeats}), encoding="utf-8")
    return path


def _asked_first(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer with its tool calls as `ao-scripted-exec` reads them: each is asked for first."""
    if "content" not in answer:
        return answer
    tools = [{"name": block["name"], "input": block["input"], "ask": True} for block in answer["content"]]
    return {"tools": tools} | {name: value for name, value in answer.items() if name != "content"}


def _write_command(folder: Path, vector: ProcessVector) -> None:
    """Write the program of a procedural agent: each call prints the next answer of the vector's model script."""
    answers = (vector.model_script or {"answers": [{"text": GREETING}]})["answers"]
    for number, answer in enumerate(answers, 1):
        text = answer.get("text") if "json" not in answer else json.dumps(answer["json"])
        (folder / f".answer-{number}").write_text(text or "", encoding="utf-8")
    program = folder / "answer"
    program.write_text(
        "#!/bin/sh\n"
        f"sleep {vector.works_for_seconds:g}\n"
        f'for n in $(seq {len(answers)}); do f=".answer-$n"; [ -f "$f" ] || continue; cat "$f"; '
        f'[ "$n" = {len(answers)} ] || rm "$f"; exit 0; done\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
