"""What stands for the model while a vector is played: the simulator, or the command of a procedural agent."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ao_conformance.subject import Subject
from ao_conformance.vectors import ProcessVector

if TYPE_CHECKING:
    from ao_conformance.model_sim import ModelSimulator

CANARY: Final = "canary-7f3a9c51"
"""Begins the value of every secret variable; it must be found nowhere (AOX-198)."""
LINGER: Final = "AO_CONFORM_LINGER_SECONDS"
NO_MODEL: Final = "the description names no model_endpoint that can be simulated"
GREETING: Final = "Hello."


class NoModel(ValueError):
    """The vector says what the model answers, and this executable's model cannot be simulated."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A model for one play."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that lead the executable to it."""
    simulator: "ModelSimulator | None" = None
    url_variable: str | None = None
    """The one of them that holds the address."""

    @property
    def requests(self) -> int:
        """How often it was asked."""
        return len(self.simulator.requests) if self.simulator else 0


@contextlib.contextmanager
def stand_in(subject: Subject, vector: ProcessVector, folder: Path) -> Iterator[StandIn]:
    """Let something stand for the model inside a `with` block.

    Raises:
        NoModel: the vector scripts the model, and the description names no endpoint that can be simulated.
    """
    if (kind := subject.model_kind) is not None:
        from ao_conformance.model_sim import ModelSimulator, Script

        with ModelSimulator(Script.model_validate(_script_of(vector))) as simulator:
            yield StandIn(
                _variables(subject, kind, simulator.base_url(kind)), simulator, subject.model_variables(kind)["env"]
            )
    elif subject.agent_type == "procedural":
        _write_command(folder, vector)
        yield StandIn(_lingering(vector))
    elif vector.model_script is not None:
        raise NoModel(NO_MODEL)
    else:
        yield StandIn(_lingering(vector))


def _script_of(vector: ProcessVector) -> dict[str, Any]:
    if vector.model_script is not None:
        return vector.model_script
    return {"answers": [{"text": GREETING, "delay_seconds": vector.works_for_seconds, "repeat": "forever"}]}


def _variables(subject: Subject, kind: str, url: str) -> dict[str, str]:
    named = subject.model_variables(kind)
    variables = {named["env"]: url}
    if key := named.get("api_key_env"):
        variables[key] = f"{CANARY}-{key}"
    return variables


def _lingering(vector: ProcessVector) -> dict[str, str]:
    return {LINGER: f"{vector.works_for_seconds:g}"} if vector.works_for_seconds else {}


def _write_command(folder: Path, vector: ProcessVector) -> None:
    """Write the program of a procedural agent: it says what the model of another would have said, one answer a call."""
    answers = (vector.model_script or {"answers": [{"text": GREETING}]})["answers"]
    for number, answer in enumerate(answers, 1):
        text = answer.get("text") if "json" not in answer else json.dumps(answer["json"])
        (folder / f".answer-{number}").write_text(text or "", encoding="utf-8")
    program = folder / "answer"
    program.write_text(
        "#!/bin/sh\n"
        f"{'exec sleep ' + format(vector.works_for_seconds, 'g') if vector.works_for_seconds else ':'}\n"
        f'for n in $(seq {len(answers)}); do f=".answer-$n"; [ -f "$f" ] || continue; cat "$f"; '
        f'[ "$n" = {len(answers)} ] || rm "$f"; exit 0; done\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
