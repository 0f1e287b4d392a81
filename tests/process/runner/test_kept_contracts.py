"""Contracts that the runner keeps for executors which know nothing of them, and results that it does not trust."""

import json
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.events import Failure, OutputValidation, Result, SessionBound
from ao_protocol.rejected_answers import RejectedAnswer
from ao_runner.runs.contract_loop import MAX_BYTES_JUDGED_AT_ONCE
from tests.process.executors.driver import installed
from tests.process.runner.cli.calling import Ao
from tests.process.runner.performing import MINIATURES, Performed, perform

pytestmark = pytest.mark.thorough  # each test performs runs

BASH = MINIATURES / "ao-bash-exec"
ECHO = Path(installed("ao-echo-exec"))
SCRIPTED = Path(installed("ao-scripted-exec"))
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
DESIGNERS = {"system_prompt": "You count.", "output_schema": SCHEMA}
WRONG = 'MARK {"n": "MARK four"}'
RIGHT = 'It is\n```json\n{"n": 4}\n```'


def inline(**options: Any) -> dict[str, Any]:
    return {"source": "inline", "schema": SCHEMA, "options": options}


def in_the_prompt() -> dict[str, Any]:
    """Return what a caller says who leaves the schema to the designer, and has it asked for as the runner does."""
    return {"source": "blueprint", "options": {"strategy": "prompt"}}


def ask_bash(folder: Path, *answers: str, **order: Any) -> Performed:
    files = {"answers.txt": "".join(f"{json.dumps(answer)}\n" for answer in answers)}
    return perform("bash", folder, executor_path=BASH, files=files, **order)


def asked(folder: Path) -> list[dict[str, Any]]:
    """Return the invocations that the bash executor read."""
    return [json.loads(line) for line in (folder / "project" / "asked.jsonl").read_text().splitlines()]


def verdicts(performed: Performed) -> list[tuple[int, bool, int]]:
    bodies = [item.event.body for item in performed.events]
    return [(v.attempt, v.valid, v.retries_left) for v in bodies if isinstance(v, OutputValidation)]


@pytest.mark.requirement("AOX-251")
def test_a_contract_is_kept_for_an_executor_that_knows_none(tmp_path: Path) -> None:
    performed = ask_bash(tmp_path, WRONG, RIGHT, blueprint=DESIGNERS)

    assert performed.result.result_data == {"n": 4}
    assert performed.result.result_text is None
    assert performed.result.output is not None
    assert performed.result.output.sent == ["prompt", "re_prompt"]
    assert verdicts(performed) == [(1, False, 1), (2, True, 0)]
    assert "MARK f" not in "".join(line for line in performed.stored_lines if '"message"' in line)
    assert performed.record.problem_count == 0


def test_the_rejected_answers_stand_in_the_record(tmp_path: Path) -> None:
    performed = ask_bash(tmp_path, WRONG, RIGHT, blueprint=DESIGNERS)

    assert performed.record.rejected_answers == (RejectedAnswer(1, WRONG),)


def test_the_record_has_no_rejected_answers_where_they_are_not_wanted(tmp_path: Path) -> None:
    performed = ask_bash(tmp_path, WRONG, RIGHT, blueprint=DESIGNERS, keeps_rejected_answers=False)

    assert performed.record.rejected_answers == ()


@pytest.mark.requirement("AOX-251")
def test_its_session_is_asked_again_with_the_problems(tmp_path: Path) -> None:
    ask_bash(tmp_path, WRONG, RIGHT, blueprint=DESIGNERS)
    first, second = asked(tmp_path)

    assert first["agent_blueprint"].keys() == {"name", "system_prompt"}
    assert first["agent_blueprint"]["system_prompt"] == "You count."
    assert first["prompt"].startswith(f"{first['parameters']['prompt']}\n\n## Required Output Format\n")
    assert (second["mode"], second["executor_session_id"]) == ("resume", "bash_1")
    assert second["session_id"] == first["session_id"]
    assert second["run_id"] != first["run_id"]
    assert second["agent_blueprint"] == first["agent_blueprint"]
    assert '- $.n: "MARK four" is not of type "integer"' in second["prompt"]
    assert second["parameters"]["prompt"] == second["prompt"]


@pytest.mark.requirement("AOX-251")
@pytest.mark.parametrize(
    ("answers", "contract"),
    [
        pytest.param([RIGHT], in_the_prompt(), id="at once"),
        pytest.param([WRONG, RIGHT], in_the_prompt(), id="asked again"),
        pytest.param([WRONG, "no JSON at all"], in_the_prompt(), id="never"),
        pytest.param([WRONG, WRONG, RIGHT], inline(strategy="prompt"), id="a caller's"),
        pytest.param([WRONG, WRONG, RIGHT], inline(strategy="system_prompt"), id="a caller's, in the system prompt"),
        pytest.param([WRONG, WRONG], inline(max_retries=1, strategy="prompt"), id="a caller's, in the prompt"),
        pytest.param([f"{WRONG} or rather {RIGHT}"], inline(strategy="extract"), id="only extracted"),
    ],
)
def test_nobody_can_tell_who_kept_the_contract(
    tmp_path: Path, answers: list[str], contract: dict[str, Any] | None
) -> None:
    blueprint = {} if contract and contract["source"] == "inline" else {"output_schema": SCHEMA}
    (tmp_path / "bash").mkdir()
    (tmp_path / "scripted").mkdir()
    by_the_runner = ask_bash(tmp_path / "bash", *answers, blueprint=blueprint, contract=contract)
    by_the_executor = perform(
        "scripted",
        tmp_path / "scripted",
        executor_path=SCRIPTED,
        blueprint=blueprint,
        contract=contract,
        executor_config={"script": {"answers": [{"text": text} for text in answers]}},
    )

    assert told(by_the_runner) == told(by_the_executor)


def told(performed: Performed) -> list[Any]:
    """Return what a caller can see of a run, the names of things and the session's announcements apart."""
    shown = [item.event.body for item in performed.events]
    documents = [body.model_dump(exclude={"message_id", "executor", "usage"}) for body in shown]
    for document in documents:
        if document.get("error"):
            document["error"].pop("side_effects")
    return [document for document in documents if document["event_type"] != "session_bound"]


@pytest.mark.requirement("AOX-251")
def test_an_executor_that_can_neither_enforce_nor_resume_has_one_attempt(tmp_path: Path) -> None:
    prompts = {"kept": '{"n": 1}', "broken": '{"n": "one"}'}
    ended = {}
    for name, prompt in prompts.items():
        (tmp_path / name).mkdir()
        ended[name] = perform(
            "echo", tmp_path / name, executor_path=ECHO, parameters={"prompt": prompt}, blueprint=DESIGNERS
        )

    assert ended["kept"].result.result_data == {"n": 1}
    assert ended["kept"].types == ["run_started", "output_validation", "message", "result"]
    assert ended["broken"].failure.error.type == "output_schema_validation_failed"
    assert ended["broken"].failure.error.validation_errors == ['$.n: "one" is not of type "integer"']
    assert verdicts(ended["broken"]) == [(1, False, 0)]
    assert ended["broken"].types == ["run_started", "output_validation", "failure"]


@pytest.mark.requirement("AOX-251")
def test_an_agents_response_is_read_for_an_executor_that_knows_no_formats(tmp_path: Path) -> None:
    xml = '<agent_response agent="a" version="1.0"><summary>Fine</summary></agent_response>'
    performed = ask_bash(tmp_path, "Fine.", xml, blueprint={"output_format": {"type": "agent_response"}})

    assert performed.result.result_data == {"agent": "a", "version": "1.0", "summary": "Fine", "findings": []}
    assert "<agent_response" in asked(tmp_path)[0]["prompt"]


def test_a_session_that_was_never_announced_is_not_asked_again(tmp_path: Path) -> None:
    performed = perform("forgets_its_session", tmp_path, blueprint=DESIGNERS)

    assert performed.failure.error.type == "output_schema_validation_failed"


def test_a_failure_while_asking_again_is_the_end_of_the_run(tmp_path: Path) -> None:
    performed = perform("loses_its_session", tmp_path, blueprint=DESIGNERS)

    assert performed.failure.error.type == "session_not_found"
    assert performed.types == ["run_started", "session_bound", "output_validation", "failure"]


def test_a_wish_to_stop_between_two_attempts_is_obeyed(tmp_path: Path) -> None:
    performed = ask_bash(tmp_path, WRONG, RIGHT, blueprint=DESIGNERS, stop_on="output_validation")

    assert performed.failure.status == "cancelled"
    assert performed.failure.error.side_effects == "possible"
    assert len(asked(tmp_path)) == 1


@pytest.mark.parametrize(
    ("blueprint", "contract", "error_type"),
    [
        pytest.param({"output_schema": {"type": "strin"}}, None, "invalid_output_schema", id="no schema"),
        pytest.param({}, inline(strategy="native"), "unsupported_capability", id="no provider"),
        pytest.param({}, inline(max_retries=99), "invalid_invocation", id="no option"),
        pytest.param(
            DESIGNERS, {"source": "inline", "schema": {}, "options": {}}, "invalid_invocation", id="overridden"
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_before_a_process_is_started(
    tmp_path: Path, blueprint: dict[str, Any], contract: dict[str, Any] | None, error_type: str
) -> None:
    performed = ask_bash(tmp_path, RIGHT, blueprint=blueprint, contract=contract)

    assert performed.failure.error.type == error_type
    assert performed.failure.error.side_effects == "none"
    assert "spawned" not in performed.record.seconds


def test_the_time_of_a_run_is_that_of_all_its_attempts(tmp_path: Path) -> None:
    ask_bash(tmp_path, *[WRONG] * 3, contract=inline(), timeout_seconds=60)
    limits = [invocation["limits"]["timeout_seconds"] for invocation in asked(tmp_path)]

    assert len(limits) == 3
    assert 60 > limits[0] > limits[1] > limits[2]


@pytest.mark.requirement("AOX-251")
@pytest.mark.parametrize(
    ("max_cost_usd", "allowed"),
    [
        pytest.param(5, ["may cost 5", "may cost 3", "may cost 1"], id="a rest for each"),
        pytest.param(3, ["may cost 3", "may cost 1"], id="the last attempt oversteps"),
        pytest.param(2, ["may cost 2"], id="used up to the cent"),
    ],
)
def test_the_price_of_a_run_is_that_of_all_its_attempts(
    tmp_path: Path, max_cost_usd: float, allowed: list[str]
) -> None:
    contract = inline(max_retries=3)
    performed = perform("answers_in_vain_for_two_dollars", tmp_path, contract=contract, max_cost_usd=max_cost_usd)

    bodies = [item.event.body for item in performed.events]
    assert [body.executor_session_id for body in bodies if isinstance(body, SessionBound)] == allowed
    error = performed.failure.error
    assert (error.type, error.origin, error.retryable) == ("limit_exceeded", "caller", False)
    assert error.message.endswith(f"USD of max_cost_usd {max_cost_usd}, and no answer fitted by then")
    assert performed.failure.usage is not None
    assert performed.failure.usage.cost_usd == 2 * len(allowed)


@pytest.mark.requirement("AOX-252")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param({"n": "x"}, '$.n: "x" is not of type "integer"', id="data that does not fit"),
        pytest.param(
            "text", "$.result_text: is present, but a contract requires result_data", id="text in place of data"
        ),
    ],
)
def test_a_result_that_does_not_keep_its_contract_is_a_lie(tmp_path: Path, data: object, problem: str) -> None:
    (tmp_path / "trusted").mkdir()
    (tmp_path / "verified").mkdir()
    order: dict[str, Any] = {"parameters": {"prompt": json.dumps(data)}, "blueprint": {"output_schema": SCHEMA}}
    trusted = perform("claims_what_does_not_fit", tmp_path / "trusted", **order)
    performed = perform("claims_what_does_not_fit", tmp_path / "verified", verify_results=True, **order)

    assert isinstance(trusted.terminal, Result)
    assert performed.failure.error.type == "protocol_violation"
    assert performed.failure.error.validation_errors == [problem]
    assert performed.record.problem_count == 0


@pytest.mark.requirement("AOX-252")
def test_a_result_that_keeps_its_contract_is_relayed_as_it_is(tmp_path: Path) -> None:
    performed = perform(
        "claims_what_does_not_fit",
        tmp_path,
        parameters={"prompt": '{"n": 1}'},
        blueprint={"output_schema": SCHEMA},
        verify_results=True,
    )

    assert performed.result.result_data == {"n": 1}


@pytest.mark.requirement("AOX-252")
def test_what_a_result_says_of_its_contract_is_verified_too(tmp_path: Path) -> None:
    performed = perform(
        "claims_what_does_not_fit",
        tmp_path,
        parameters={"prompt": '{"n": 1}'},
        contract=inline(),
        verify_results=True,
    )

    assert performed.failure.error.validation_errors == ["$.output.schema_source: expected 'inline', found 'blueprint'"]


@pytest.mark.parametrize("n", ["1", '"x"'], ids=["kept", "broken"])
def test_a_large_result_is_verified_like_a_small_one(tmp_path: Path, n: str) -> None:
    performed = perform(
        "claims_what_does_not_fit",
        tmp_path,
        parameters={"prompt": f'{{"n": {n}, "more": "{"x" * MAX_BYTES_JUDGED_AT_ONCE}"}}'},
        blueprint={"output_schema": SCHEMA},
        verify_results=True,
    )

    terminal = performed.terminal
    if isinstance(terminal, Failure):
        assert terminal.error.validation_errors == ['$.n: "x" is not of type "integer"']
    assert isinstance(terminal, Result) == (n == "1")


def test_a_large_answer_is_judged_like_a_small_one(tmp_path: Path) -> None:
    much = "so [ and so { " * MAX_BYTES_JUDGED_AT_ONCE
    performed = ask_bash(tmp_path, f"{much}\n{WRONG}", f"{much}\n{RIGHT}", blueprint=DESIGNERS)

    assert performed.result.result_data == {"n": 4}
    assert verdicts(performed) == [(1, False, 1), (2, True, 0)]


@pytest.mark.parametrize("prompt", ["", 5, None], ids=["empty", "number", "null"])
def test_a_prompt_that_is_none_is_not_made_one_by_the_demand(tmp_path: Path, prompt: object) -> None:
    performed = perform(
        "echo",
        tmp_path,
        executor_path=ECHO,
        parameters={"prompt": prompt},
        contract=inline(strategy="prompt"),
    )

    assert performed.failure.error.type == "parameters_validation_failed"


def test_a_resume_is_asked_in_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    home = {"AO_HOME": str(tmp_path / "home")}
    ao = Ao(tmp_path)
    ao.write("agent.json", json.dumps({"name": "a", "default_output_schema": SCHEMA}))
    (tmp_path / "project" / "answers.txt").write_text("".join(f"{json.dumps(text)}\n" for text in (RIGHT, RIGHT)))
    run = ("run", "agent.json", "-p", "one", "--executor", str(BASH), "--project-dir", "project")
    first = ao(*run, **home)
    second = ao("resume", "last", "-p", "two", **home)

    assert (first.document, second.document) == ({"n": 4}, {"n": 4})
    started, resumed = asked(tmp_path)
    assert started["prompt"].startswith("one\n\n## Required Output Format\n")
    assert resumed["prompt"].startswith("two\n\n## Required Output Format\n")
