"""Control lines: what a runner may say after the invocation."""

import pytest

from ao_protocol.documents import (
    Cancel,
    ControlLine,
    InputResponse,
    InvalidControlLine,
    Shutdown,
    Turn,
    parse_control_line,
)


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (b'{"type":"cancel","reason":"user"}', Cancel(reason="user")),
        (
            b'{"type":"turn","run_id":"run_2","parameters":{"prompt":"And?"}}',
            Turn(run_id="run_2", parameters={"prompt": "And?"}),
        ),
        (b'{"type":"shutdown"}', Shutdown()),
        (b'{"type":"input_response","request_id":"q1","value":[1]}', InputResponse(request_id="q1", value=[1])),
    ],
    ids=["cancel", "turn", "shutdown", "input_response"],
)
def test_a_control_line_is_read_by_its_type(line: bytes, meaning: ControlLine) -> None:
    assert parse_control_line(line) == meaning


@pytest.mark.requirement("AOX-061")
def test_an_unknown_type_means_nothing() -> None:
    assert parse_control_line(b'{"type":"dance"}') is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"stop!", "not JSON: Expecting value at character 0"),
        (b"{}", "$.type: expected a string, found None"),
        (
            b'{"type":"turn","run_id":7}',
            "$.run_id: input should be a valid string, found 7; $.parameters: field required",
        ),
    ],
    ids=["no JSON", "no type", "fields"],
)
@pytest.mark.requirement("AOX-062")
def test_a_malformed_line_says_what_is_wrong(line: bytes, problem: str) -> None:
    with pytest.raises(InvalidControlLine) as invalid:
        parse_control_line(line)

    assert str(invalid.value) == f"invalid control line: {problem}"
