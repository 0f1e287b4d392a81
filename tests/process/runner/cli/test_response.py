"""`ao response`: show, convert and merge what agents answered."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Finding,
    Form,
    RelevantFile,
    Results,
    aggregate,
    parse_agent_response,
    write_response,
)
from ao_runner.cli.printing import plain_text
from ao_runner.cli.response import aggregate_lines, response_lines, response_text
from tests.process.runner.cli.calling import SECONDS, Ao, at_a_terminal, miniature, read_until

SECURITY = AgentResponse(
    agent="security",
    summary="Found one critical issue",
    findings=[
        Finding(
            priority="P1",
            location="api/users.ts:45",
            issue="SQL injection",
            rationale="Input reaches the query\nas it came",
            suggestion="Bind the parameters",
        )
    ],
    results=Results(files=[RelevantFile(path="api/users.ts", relevance="Builds the query")], answer="In one file"),
    error="The tests could not run",
    agent_specific={"confidence": 0.9},
)
LOGS = "Findings:\n- [P2] sql injection. — api/users.ts#L45 — Seen in a log\n- [P3] Typo — readme.md:3 — reads badly\n"
BROKEN = '<agent_response><findings><finding priority="P9" location=""/></findings></agent_response>'
STEERING = "red \x1b[31m title \x1b]0;x\x07 back \x08\x7f csi \x9b31m round \u202e turned \u2066 line\u2028end"


def plain(lines: object) -> list[str]:
    import click

    assert hasattr(lines, "__iter__")
    return [click.unstyle(line) for line in lines]


def test_a_response_in_brief_holds_all_that_people_look_for() -> None:
    assert plain(response_lines(SECURITY)) == [
        "security  Found one critical issue",
        "  P1  api/users.ts:45  SQL injection",
        "      Input reaches the query",
        "      as it came",
        "      → Bind the parameters",
        "  files",
        "      api/users.ts  Builds the query",
        "  answer",
        "      In one file",
        "  error",
        "      The tests could not run",
        "  its own",
        "      confidence",
    ]


def test_a_response_with_a_summary_alone_is_one_line() -> None:
    assert plain(response_lines(AgentResponse(agent="a", summary="two\nlines"))) == ["a  two lines"]


def test_several_responses_in_brief_name_who_said_what() -> None:
    merged = aggregate([SECURITY, parse_agent_response(LOGS, agent="logs")])
    assert plain(aggregate_lines(merged)) == [
        "2 responses, 2 findings (1 P1, 1 P3)",
        "  security  Found one critical issue",
        "  logs  2 findings: 1 P2, 1 P3",
        "",
        "  P1  api/users.ts:45  SQL injection  (security, logs)",
        "      Input reaches the query",
        "      as it came",
        "      Seen in a log",
        "      → Bind the parameters",
        "  P3  readme.md:3  Typo  (logs)",
        "      reads badly",
        "  files",
        "      api/users.ts  Builds the query  (security)",
        "  answers",
        "      security  In one file",
        "  errors",
        "      security  The tests could not run",
        "  their own",
        "      security  confidence",
    ]


@pytest.mark.parametrize("priority", ["P1", "P2", "P3"])
def test_each_priority_has_its_colour(priority: str) -> None:
    finding = Finding.model_validate({"priority": priority, "location": "", "issue": "i", "rationale": ""})
    _, line = response_lines(AgentResponse(agent="a", summary="s", findings=[finding]))
    colour = {"P1": 31, "P2": 33, "P3": 36}[priority]
    assert line == f"  \x1b[{colour}m\x1b[1m{priority}\x1b[0m  i"


def test_what_a_model_wrote_is_harmless_wherever_it_is_shown() -> None:
    finding = Finding(priority="P1", location=STEERING, issue=STEERING, rationale=STEERING, suggestion=STEERING)
    files = [RelevantFile(path=STEERING, relevance=STEERING)]
    response = AgentResponse(
        agent=STEERING,
        summary=STEERING,
        findings=[finding],
        results=Results(files=files, answer=STEERING),
        error=STEERING,
        agent_specific={STEERING: 1},
    )
    shown = [*plain(response_lines(response)), *plain(aggregate_lines(aggregate([response])))]
    for line in shown:
        assert not set(line) & set("\x1b\x07\x08\x7f\x9b\u202e\u2066\u2028\n")


def test_harmless_text_keeps_its_lines() -> None:
    assert plain_text("a\n\tb \x1b[1m\u202ec") == "a\n\tb [1mc"


RESULTS = {
    "text": {"event_type": "result", "result_text": "x", "result_data": None},
    "data": {"event_type": "result", "result_text": None, "result_data": {"agent": "a", "summary": "é"}},
    "data alone": {"result_data": {"agent": "a", "summary": "é"}},
}


@pytest.mark.parametrize("name", RESULTS)
def test_the_result_of_a_run_is_taken_out_of_its_event(name: str) -> None:
    expected = "x" if name == "text" else '{"agent": "a", "summary": "é"}'
    event = json.dumps(RESULTS[name], indent=2)
    assert response_text(event) == expected
    others = '{"event_type":"run_started"}\n{"event_type":"message","content":[]}\n'
    assert response_text(others + json.dumps(RESULTS[name]) + "\n") == expected


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        '{"agent": "a", "summary": "s", "result_text": "x"}',
        '{"result_text": ',
        '{"a": {"result_text": "x"}}',
        "[" * 100_000 + '"result_text"',
        '{"result_text":' + "[" * 100_000,
    ],
    ids=["text", "a response", "cut off", "deeper", "brackets", "deep"],
)
def test_what_is_no_result_is_left_as_it_is(text: str) -> None:
    assert response_text(text) is text


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (
            {"event_type": "failure", "error": {"type": "internal_error", "message": "m"}},
            "ended with internal_error: m",
        ),
        ({"event_type": "result", "result_text": None, "result_data": None}, "an empty result"),
    ],
)
def test_a_run_without_a_result_is_no_response(event: dict[str, object], found: str) -> None:
    with pytest.raises(AgentResponseError, match=found):
        response_text(json.dumps(event))


@pytest.fixture
def answers(ao: Ao) -> Ao:
    """Return an `ao` beside responses in four files, of which one is none."""
    ao.write("security.xml", write_response(SECURITY, Form.XML))
    ao.write("logs.txt", LOGS)
    ao.write("quality.json", write_response(AgentResponse(agent="quality", summary="Fine"), Form.JSON))
    ao.write("broken.xml", BROKEN)
    return ao


def test_responses_are_shown_one_after_the_other(answers: Ao) -> None:
    called = answers("response", "show", "quality.json", "security.xml")

    assert (called.exit_code, called.stderr) == (0, "")
    assert called.stdout == "quality  Fine\n\n" + "\n".join(plain(response_lines(SECURITY))) + "\n"


def test_responses_and_verdicts_are_there_for_scripts(answers: Ao) -> None:
    called = answers("response", "show", "security.xml", "logs.txt", "broken.xml", "--json")

    security, logs, broken = called.document
    assert security == {
        "file": "security.xml",
        "ok": True,
        "form": "xml",
        "older": False,
        "repaired": False,
        "remarks": [],
        "response": SECURITY.model_dump(mode="json"),
    }
    assert (logs["form"], logs["older"], logs["response"]["agent"]) == (None, True, "logs")
    assert logs["remarks"] == [{"kind": "older", "place": "the text", "message": "lines of findings"}]
    assert [problem["found"] for problem in broken["problems"]] == ["no such attribute", "none", '"P9"', "none", "none"]
    assert broken["problems"][2]["place"] == "line 1, <finding> priority"
    assert called.exit_code == 1


def test_a_text_that_does_not_say_whose_it_is_gets_a_name(answers: Ao) -> None:
    assert answers("response", "show", "logs.txt").stdout.startswith("logs  ")
    assert answers("response", "show", "logs.txt", "--agent", "auditor").stdout.startswith("auditor  ")
    assert answers("response", "show", "quality.json", "--agent", "auditor").stdout.startswith("quality  ")
    assert answers("response", "show", "-", stdin=LOGS).stdout.startswith("unknown  ")


@pytest.mark.parametrize("form", list(Form))
def test_a_response_is_converted_without_loss(form: Form, answers: Ao) -> None:
    called = answers("response", "convert", "security.xml", "--to", form)

    assert (called.exit_code, called.stderr) == (0, "")
    assert parse_agent_response(called.stdout) == SECURITY
    assert answers("response", "convert", "-", "--to", "xml", stdin=called.stdout).stdout == (
        f"{write_response(SECURITY, Form.XML)}\n"
    )


def test_what_is_no_response_is_not_converted(answers: Ao) -> None:
    called = answers("response", "convert", "-", "--to", "xml", stdin="nothing")

    assert (called.exit_code, called.stdout) == (1, "")
    assert called.stderr == (
        '✗ -: the text: found "nothing", expected a response as XML, JSON or Markdown, or an older one\n'
    )


def test_every_problem_of_what_is_no_response_is_told(answers: Ao) -> None:
    called = answers("response", "show", "broken.xml", "quality.json")

    assert called.exit_code == 1
    assert called.stdout == "quality  Fine\n"
    assert called.stderr.splitlines() == [
        "✗ broken.xml: line 1, <agent_response>: found no such attribute, expected the attribute agent",
        "✗ broken.xml: line 1, <agent_response>: found none, expected <summary> inside",
        '✗ broken.xml: line 1, <finding> priority: found "P9", expected P1, P2 or P3',
        "✗ broken.xml: line 1, <finding>: found none, expected <issue> inside",
        "✗ broken.xml: line 1, <finding>: found none, expected <rationale> inside",
    ]


def test_repairs_are_told_and_names_nobody_reads(ao: Ao) -> None:
    ao.write("a.json", '{"agent": "a", "summary": "s",}')
    ao.write("b.json", '{"agent": "b", "summary": "s", "finding": []}')
    ao.write("c.xml", '<agent_response agent="a"><summary>x && y</summary></agent_response>')

    called = ao("response", "show", "a.json", "b.json", "c.xml")

    assert called.exit_code == 1
    assert called.stderr.splitlines() == [
        "! a.json: the text: a comma behind the last member at character 29",
        "! b.json: $.finding: an unknown name; did you mean 'findings'?",
        "✗ c.xml: line 1, column 39: found XML that is not well-formed (not well-formed (invalid token)), expected one "
        "complete element in which & is written &amp; and < is written &lt;",
    ]


def test_responses_are_merged_and_a_file_without_one_is_told(answers: Ao) -> None:
    called = answers("response", "aggregate", "security.xml", "broken.xml", "logs.txt", "absent.xml")

    assert called.exit_code == 1
    merged = aggregate([SECURITY, parse_agent_response(LOGS, agent="logs")])
    assert called.stdout.splitlines() == plain(aggregate_lines(merged))
    assert called.stderr.splitlines()[0].startswith("✗ broken.xml: line 1")
    assert called.stderr.splitlines()[-1] == (
        "✗ absent.xml: the file: found no such file or directory, expected a readable file"
    )


def test_merged_responses_are_there_for_scripts(answers: Ao) -> None:
    called = answers("response", "aggregate", "security.xml", "logs.txt", "broken.xml", "--json")

    assert list(called.document) == ["summaries", "findings", "files", "answers", "errors", "agent_specific", "unread"]
    assert [finding["agents"] for finding in called.document["findings"]] == [["security", "logs"], ["logs"]]
    assert called.document["agent_specific"] == [{"agent": "security", "value": {"confidence": 0.9}}]
    assert [each["file"] for each in called.document["unread"]] == ["broken.xml"]
    assert called.exit_code == 1
    assert called.stdout == answers("response", "aggregate", "security.xml", "logs.txt", "broken.xml", "--json").stdout


def test_what_a_run_printed_is_a_file_like_any_other(ao: Ao) -> None:
    run = ("run", "agent.yaml", "-p", LOGS, "--executor", miniature("answers_at_once"))
    ao.write("run.json", ao(*run, "--json").stdout)
    ao.write("events.jsonl", ao("events", "last").stdout)
    ao.write("result.json", ao("result", "last", "--json").stdout)

    called = ao("response", "aggregate", "run.json", "events.jsonl", "result.json", "--json", "--agent", "logs")

    assert called.exit_code == 0, called.stderr
    assert [finding["issue"] for finding in called.document["findings"]] == ["sql injection.", "Typo"]
    assert ao("response", "show", "-", stdin=ao("result", "last").stdout).exit_code == 0


def test_a_run_that_failed_is_told_as_one(ao: Ao) -> None:
    ao.write(
        "run.json", ao("run", "agent.yaml", "-p", "x", "--executor", miniature("crashes_by_signal"), "--json").stdout
    )

    called = ao("response", "show", "run.json")

    assert called.exit_code == 1
    assert called.stderr.startswith("✗ run.json: the result: found a run that ended with executor_crashed: ")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"Findings:\n- [P1] caf\xe9 \xff", "byte 20: found invalid UTF-8, expected UTF-8 text"),
        (b"", 'the text: found ""'),
    ],
    ids=["latin-1", "empty"],
)
def test_a_file_that_is_no_text_is_told(content: bytes, found: str, ao: Ao) -> None:
    (ao.folder / "a.txt").write_bytes(content)

    called = ao("response", "show", "a.txt")

    assert called.exit_code == 1
    assert f"✗ a.txt: {found}" in called.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_texts_are_read_as_windows_writes_them(encoding: str, ao: Ao) -> None:
    (ao.folder / "a.txt").write_bytes(LOGS.replace("\n", "\r\n").encode(encoding))

    assert ao("response", "show", "a.txt").exit_code == 0


def test_the_commands_on_the_page_print_what_stands_there(ao: Ao) -> None:
    page = (Path(__file__).parents[4] / "docs" / "agent-response.md").read_text(encoding="utf-8")
    ao.write("security.xml", re.findall(r"^```xml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0])
    ao.write("logs.txt", re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0])
    (console,) = re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    calls = re.findall(r"^\$ ao (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(calls) == 3
    for line, printed in calls:
        called = ao(*line.split())
        assert called.stdout + called.stderr == printed


def shown_at_a_terminal(ao: Ao, *arguments: str, **variables: str) -> str:
    with at_a_terminal(ao, "response", *arguments, variables=variables) as (process, ours):
        shown = read_until(ours).decode()
        assert process.wait(SECONDS) == 0
    return shown


def test_at_a_terminal_priorities_have_colours_unless_nobody_wants_them(answers: Ao) -> None:
    assert "\x1b[31m\x1b[1mP1" in shown_at_a_terminal(answers, "show", "security.xml")
    assert "\x1b" not in shown_at_a_terminal(answers, "show", "security.xml", NO_COLOR="1")
    assert "\x1b" not in shown_at_a_terminal(answers, "aggregate", "security.xml", TERM="dumb")


@pytest.mark.parametrize(
    "line",
    [
        "show",
        "show --json",
        "convert --to json",
        "convert --to markdown",
        "aggregate",
        "aggregate --json",
    ],
)
def test_no_text_of_a_model_steers_a_terminal(line: str, ao: Ao) -> None:
    finding = {"priority": "P1", "location": STEERING, "issue": STEERING, "rationale": STEERING}
    response = {"agent": STEERING, "summary": STEERING, "findings": [finding], STEERING: 1}
    specific = {"agent_specific": {STEERING: STEERING}}
    ao.write("a.json", json.dumps(response | specific))

    command, *options = line.split()
    shown = shown_at_a_terminal(ao, command, "a.json", *options, NO_COLOR="1")

    assert "red" in shown
    assert not set(re.sub("\x1b\\[[01]m", "", shown)) & set("\x1b\x07\x08\x7f\x9b\u202e\u2066")


def test_a_pipe_that_closes_is_no_failure_to_complain_about(answers: Ao) -> None:
    big = AgentResponse(agent="a", summary="s", error="x\n" * 500_000)
    Path(answers.folder / "big.json").write_text(write_response(big, Form.JSON))
    argv = answers.argv("response", "show", "big.json")
    with subprocess.Popen(
        argv, cwd=answers.folder, env=answers.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(SECONDS)
