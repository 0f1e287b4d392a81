"""The page about the format is true: its examples are read, and its Python runs."""

import doctest
import re
from pathlib import Path

import pytest

from ao_protocol import agent_response
from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Form,
    examine_response,
    parse_agent_response,
)

PAGE = (Path(__file__).parents[4] / "docs" / "agent-response.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return [body for _, body in re.findall(rf"^(`{{3,}}){language}\n(.*?)^\1$", PAGE, re.DOTALL | re.MULTILINE)]


def test_the_three_forms_say_the_same() -> None:
    said = [examine_response(text, form=form).response for form in Form for text in examples(form.value)[:1]]
    assert len(said) == 3
    assert said[0] == said[1] == said[2]


def test_the_python_on_the_page_runs() -> None:
    runner = doctest.DocTestRunner()
    test = doctest.DocTestParser().get_doctest("\n".join(examples("python")), {}, "agent-response.md", None, 0)
    assert runner.run(test).failed == 0
    assert len(test.examples) == 10


@pytest.mark.parametrize(
    ("index", "summary"),
    [
        (0, "2 findings: 1 P1, 1 P2"),
        (1, "One issue found"),
        (2, "Authentication is done with tokens in src/auth"),
        (3, "Keep one store"),
    ],
)
def test_the_older_formats_on_the_page_are_read(index: int, summary: str) -> None:
    assert parse_agent_response(examples("text")[index]).summary == summary


def test_the_page_names_every_field_and_every_refusal() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    refusals = {
        name
        for name in agent_response.__all__
        if isinstance(getattr(agent_response, name), type) and name != "AgentResponseError"
        if issubclass(getattr(agent_response, name), AgentResponseError)
    }
    assert rows == {*AgentResponse.model_fields, *refusals}
