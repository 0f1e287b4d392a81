"""`ao-echo-exec`, the smallest valid executor."""

from tests.executors.driver import installed, invocation, run

ECHO = [installed("ao-echo-exec")]


def test_it_answers_with_the_prompt() -> None:
    ended = run(ECHO, invocation(parameters={"prompt": "Grüße"}))

    assert ended.terminal["result_text"] == "Grüße"
    assert ended.exit_code == 0
