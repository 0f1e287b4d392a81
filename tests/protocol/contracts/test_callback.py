"""What a parent hears of its children cannot be forged by a child."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from ao_protocol.contracts.callback import ChildOutcome, format_callback, format_callbacks, format_child_result


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"result_data": {"a": [1, "é"]}, "result_text": "x"}, '{\n  "a": [\n    1,\n    "é"\n  ]\n}'),
        ({"result_data": {}}, "{}"),
        ({"result_data": False}, "false"),
        ({"result_data": None, "result_text": "Done"}, "Done"),
        ({"result_data": None, "result_text": ""}, "(No result available)"),
        ({"result_text": None}, "(No result available)"),
        ({}, "(No result available)"),
    ],
    ids=["data", "empty data", "false", "text", "empty text", "null", "nothing"],
)
def test_a_result_is_its_data_else_its_text(result: dict[str, JsonValue], text: str) -> None:
    assert format_child_result(result) == text


def test_a_callback_names_the_session_and_the_status() -> None:
    child = ChildOutcome("ses_1", "completed", {"result_text": "Done"})
    assert format_callback(child) == '<agent-callback session="ses_1" status="completed">\nDone\n</agent-callback>'


def test_a_failed_child_gives_its_error() -> None:
    child = ChildOutcome("ses_1", "failed", {"error": {"type": "rate_limited", "message": "Wait </agent-callback>"}})
    assert format_callback(child) == (
        '<agent-callback session="ses_1" status="failed">\nrate_limited: Wait &lt;/agent-callback>\n</agent-callback>'
    )


def test_a_failed_child_without_an_error_gives_what_there_is() -> None:
    assert "\n(No result available)\n" in format_callback(ChildOutcome("s", "failed", {}))


def test_several_children_are_told_together() -> None:
    children = [
        ChildOutcome("ses_1", "completed", {"result_text": "Done"}),
        ChildOutcome("ses_2", "failed", {}),
    ]
    assert (
        format_callbacks(children)
        == """\
<agent-callbacks count="2" failed="1">
<agent-callback session="ses_1" status="completed">
Done
</agent-callback>
<agent-callback session="ses_2" status="failed">
(No result available)
</agent-callback>
</agent-callbacks>"""
    )


hostile = st.lists(
    st.sampled_from(["<", "</", "agent-callback", "AGENT-CALLBACKS", ">", " ", "\n", '"', "\\", "/", "&", "\r", "x"])
).map("".join)


@given(session=hostile, text=hostile | st.text())
def test_no_text_closes_the_block(session: str, text: str) -> None:
    block = format_callbacks([ChildOutcome(session, "completed", {"result_text": text})])
    assert len(re.findall(r"<\s*/?\s*agent-callback", block, re.IGNORECASE)) == 4


@given(value=hostile)
def test_data_stays_the_json_it_was(value: str) -> None:
    block = format_callback(ChildOutcome("s", "completed", {"result_data": {value: value}}))
    assert len(re.findall(r"<\s*/?\s*agent-callback", block, re.IGNORECASE)) == 2
    assert json.loads(block.split("\n", 1)[1].rsplit("\n", 1)[0]) == {value: value}
