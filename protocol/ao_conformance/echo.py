"""An executor that answers with what its agent would be given (SPEC 12): without a model, its prompt is seen there."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ao_conformance.driver.transcript import OutputLine
from ao_conformance.event_lines import is_terminal, member

ECHO: Final = {"AO_CONFORM_ECHO": "1"}


def wanted_prompt(model_script: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what a script expects of the prompt; None where it expects anything else, or more, of a model."""
    answers: Sequence[Mapping[str, Any]] = (model_script or {}).get("answers", ())
    if len(answers) != 1 or answers[0].keys() - {"text", "expect"}:
        return None
    expected: Mapping[str, Any] = answers[0].get("expect", {})
    return expected if expected and all(name.startswith("last_user_") for name in expected) else None


def find_wrong_prompt(wanted: Mapping[str, Any], lines: Sequence[OutputLine]) -> list[str]:
    """Return one sentence for each thing that an echoed prompt does not hold; none where no whole one came."""
    from ao_model_simulator import Expectation, ModelRequest, find_mismatches

    text = echoed(lines)
    if text is None:
        return []
    request = ModelRequest("POST", "/v1/messages", {}, {"messages": [{"role": "user", "content": text}]})
    wrong = find_mismatches(Expectation.model_validate(wanted), request)
    return [f"in result_text, which repeats it: {sentence.partition(': ')[2]}" for sentence in wrong]


def echoed(lines: Sequence[OutputLine]) -> str | None:
    """Return the text of the last terminal event; None where none came, or not the whole of it."""
    last = next((line.raw for line in reversed(lines) if is_terminal(line.raw)), b"")
    text = member(last, "result_text")
    return text if isinstance(text, str) and member(last, "truncated") is not True else None
