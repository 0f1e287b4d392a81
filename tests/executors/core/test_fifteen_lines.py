"""A new executor takes about fifteen lines."""

import sys
from pathlib import Path

import pytest

from tests.executors.driver import invocation, run

UPPERCASE = """\
from ao_executors.core import Answer, Executor, converse, serve


class Uppercase:
    async def ask(self, text):
        return Answer(text.upper(), message_id="msg_1")


async def perform(task):
    return await converse(task, Uppercase())


serve(Executor("uppercase", "1.0", perform, {"capabilities": {"output_schema": {"strategies": ["prompt"]}}}))
"""


@pytest.fixture
def uppercase(tmp_path: Path) -> list[str]:
    (tmp_path / "ao-uppercase-exec").write_text(f"#!{sys.executable}\n{UPPERCASE}")
    (tmp_path / "ao-uppercase-exec").chmod(0o755)
    return [str(tmp_path / "ao-uppercase-exec")]


def test_it_answers(uppercase: list[str]) -> None:
    ended = run(uppercase, invocation(parameters={"prompt": "louder"}))

    assert ended.terminal["result_text"] == "LOUDER"
    assert ended.exit_code == 0


def test_it_keeps_output_contracts(uppercase: list[str]) -> None:
    ended = run(uppercase, invocation(parameters={"prompt": '{"ok": 1}'}, output_schema={"required": ["OK"]}))

    assert ended.terminal["result_data"] == {"OK": 1}
