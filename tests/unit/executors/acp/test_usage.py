"""The figures of a run, from those of agents that count a turn or a session."""

from typing import Any

import pytest

from ao_executors.acp.agent_usage import RunUsage


def tokens(given: int, written: int) -> dict[str, Any]:
    return {"usage": {"inputTokens": given, "outputTokens": written, "totalTokens": given + written}}


@pytest.mark.parametrize(
    ("counts_turns", "is_new", "expected"),
    [(True, True, (30, 3)), (True, False, (30, 3)), (False, True, (20, 2)), (False, False, (0, 0))],
    ids=["turns", "turns of a continued session", "session", "continued session"],
)
def test_tokens_of_a_run(counts_turns: bool, is_new: bool, expected: tuple[int, int]) -> None:
    usage = RunUsage(counts_turns=counts_turns, is_new=is_new)
    usage.begin()
    usage.take_response(tokens(10, 1))
    usage.begin()
    usage.take_response(tokens(20, 2))

    assert (usage.figures().input_tokens, usage.figures().output_tokens) == expected


def test_tokens_of_subagents_count_where_an_agent_tells_each_model() -> None:
    counts = {"inputTokens": 10, "outputTokens": 1, "cachedInputTokens": 4}
    rows = [{"model": "large", "token_count": counts}, {"model": "small", "token_count": counts}]
    usage = RunUsage(counts_turns=True, is_new=True)
    usage.begin()
    usage.take_response({**tokens(10, 1), "_meta": {"quota": {"model_usage": rows}}})

    figures = usage.figures()
    assert (figures.input_tokens, figures.output_tokens, figures.cache_read_input_tokens) == (20, 2, 8)


def test_a_continued_session_with_an_unknown_beginning_has_no_cost() -> None:
    usage = RunUsage(counts_turns=True, is_new=False)
    usage.begin()
    usage.take_update({"cost": {"amount": 9.0, "currency": "USD"}})

    assert usage.figures().cost_usd is None


@pytest.mark.parametrize(
    "given", [{}, {"usage": None}, {"usage": {"inputTokens": "1"}}, {"usage": {"inputTokens": -1}}]
)
def test_what_is_no_figure_is_left_out(given: dict[str, Any]) -> None:
    usage = RunUsage(counts_turns=True, is_new=True)
    usage.begin()
    usage.take_response(given)

    assert not usage.is_known


@pytest.mark.parametrize(
    ("total", "output"), [(40, 30), (47, 37), (None, 30)], ids=["part of the output", "beside the output", "unknown"]
)
def test_reasoning_is_a_part_of_the_output(total: int | None, output: int) -> None:
    usage = RunUsage(counts_turns=True, is_new=True)
    usage.begin()
    given = {"inputTokens": 10, "outputTokens": 30, "thoughtTokens": 7, "totalTokens": total}
    usage.take_response({"usage": given})

    assert (usage.figures().output_tokens, usage.figures().reasoning_tokens) == (output, 7)
