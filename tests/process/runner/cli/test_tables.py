"""Lists at a terminal: lines that fit, and ids that can be typed."""

import re
import subprocess

import pytest
from rich.cells import cell_len

from tests.process.runner.cli.calling import SECONDS, Ao, at_a_terminal, miniature, read_until

AGENTS = ("a-rather-long-name-of-an-agent", "名前が長いエージェントの例です", "b")
PROMPT = "Review pull request 7 and tell me what is wrong with it"


@pytest.fixture
def listed(ao: Ao) -> Ao:
    """Return an `ao` with three runs that wait, one with wide characters."""
    for name in AGENTS:
        ao.write("long.yaml", f"name: {name}\n")
        ao("submit", "long.yaml", "-p", PROMPT, "--profile", miniature("answers_at_once"))
    return ao


def at_terminal(ao: Ao, columns: int, command: str) -> list[str]:
    """Return the lines that a command writes at a terminal of a width, without its colours."""
    with at_a_terminal(ao, command, columns=columns, streams={"stderr": subprocess.DEVNULL}) as (process, ours):
        read = read_until(ours).decode()
        assert process.wait(SECONDS) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", read).splitlines()


@pytest.mark.parametrize("columns", [22, 40, 70, 80, 120])
@pytest.mark.parametrize("command", ["runs", "sessions"])
def test_every_line_fits_the_terminal_and_ids_are_whole(command: str, columns: int, listed: Ao) -> None:
    ids = {item[f"{command[:-1]}_id"] for item in listed(command, "--json").document}
    header, *rows = at_terminal(listed, columns, command)

    assert max(map(cell_len, (header, *rows))) <= columns
    assert {row.split()[0] for row in rows} == ids
    assert not any(re.search(r"\d\d-\d+…|\d\d …", row) for row in rows)  # a date is whole or absent


@pytest.mark.parametrize(
    ("command", "columns"),
    [("runs", ["RUN", "AGENT", "STATUS", "SINCE", "PROMPT"]), ("sessions", ["SESSION", "AGENT", "LAST"])],
)
def test_what_matters_most_is_left_at_70_columns(command: str, columns: list[str], listed: Ao) -> None:
    assert set(columns) <= set(at_terminal(listed, 70, command)[0].split())


@pytest.mark.parametrize("command", ["runs", "sessions"])
def test_piped_lists_are_complete(command: str, listed: Ao) -> None:
    header, *rows = listed(command, COLUMNS="30").stdout.splitlines()

    assert "PROMPT" in header
    assert all("Review pull request 7" in row and "queued" in row for row in rows)
