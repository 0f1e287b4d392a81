"""Whether the executor does only what its description declares (AOX-123), and says what belongs to what it declares."""

from collections.abc import Iterator
from typing import Final

from ao_conformance.judging.reading import Output
from ao_conformance.played import Played
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding

CAPABILITY_OF: Final = {
    "message_delta": "streaming",
    "session_bound": "resume",
    "output_validation": "output_schema",
}
"""Events that belong to a capability (SPEC 5)."""


def judge_honesty(subject: Subject, played: Played, output: Output) -> Iterator[Finding]:
    """Find events of a capability that is not declared, and the lack of what a declared one promises."""
    for event in output.events:
        capability = CAPABILITY_OF.get(event.type)
        if capability and not subject.declares(capability):
            yield Finding(
                "AOX-123",
                f"no {event.type}, for the description does not declare {capability}",
                "one came",
                line=event.line,
            )
            break
    for run in output.runs:
        summary = run[-1].document.get("output")
        if run[-1].type == "result" and isinstance(summary, dict) and not subject.declares("output_schema"):
            yield Finding(
                "AOX-123",
                "no output, for the description does not declare output_schema",
                "the result has one",
                line=run[-1].line,
            )
        bound = any(event.type == "session_bound" for event in run)
        if subject.declares("resume") and run[-1].type == "result" and not bound:
            yield Finding("AOX-082", "session_bound in every run that asked the model", "none came", line=run[-1].line)
