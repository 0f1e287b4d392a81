"""Real agents ask a person through `ao`: allowed and denied at a terminal, out of time, parked and continued."""

from pathlib import Path

import pytest

from tests.real_cli.agents_table.known_agents import AGENTS
from tests.real_cli.agents_table.probe_runs import Bench
from tests.real_cli.agents_table.probes_of_questions import ASKS, PARKS, answers_of, probe_parking, probe_questions
from tests.real_cli.programs import needs_claude_agent

each_agent = pytest.mark.parametrize(
    "name", ["claude-code", "codex", pytest.param("claude-acp", marks=needs_claude_agent)]
)


def bench_of(name: str, folder: Path) -> Bench:
    (agent,) = [agent for agent in AGENTS if agent.name == name]
    return Bench(agent, folder)


@pytest.mark.slow  # three runs; what each executor makes of an answer is tested without a terminal
@each_agent
def test_a_call_happens_only_if_a_person_allows_it_in_time(name: str, tmp_path: Path) -> None:
    assert probe_questions(bench_of(name, tmp_path)) == {ASKS: ""}


@pytest.mark.slow  # a run, and a worker that waits until it has nothing to do
def test_a_parked_run_is_continued_by_a_worker(tmp_path: Path) -> None:
    assert probe_parking(bench_of("claude-code", tmp_path)) == {PARKS: ""}


def test_a_profile_that_parks_is_refused_where_nothing_can_be_parked(tmp_path: Path) -> None:
    bench = bench_of("codex", tmp_path)
    ended = bench.run("parked", answers_of(bench), "-p", "Work.", input={"wait_seconds": 1, "then": "park"})

    assert "expected deny or cancel, because codex does not have the capability input_parking" in ended.why
    assert ended.requests == ()


@pytest.mark.requirement("AOX-155")
@pytest.mark.parametrize("name", ["codex", pytest.param("claude-acp", marks=needs_claude_agent)])
def test_a_request_that_nobody_answers_in_time_expires_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    bench = bench_of(name, tmp_path)
    ended = bench.run("late", answers_of(bench), "-p", "Work.", input={"wait_seconds": 0.1})

    assert [(one["outcome"], one["by"]) for one in ended.of_type("input_resolved")] == [("expired", "timeout")]
    assert [one["status"] for one in ended.of_type("tool_finished")] == ["denied"]
    assert ended.terminal["result_text"] == "So be it."
    assert not (tmp_path / "late" / "made").exists()
