"""`ao run` asks the person at its terminal; somebody else may answer first."""

import os
import signal
import sqlite3
from contextlib import closing

from tests.process.runner.cli.asking import resolutions_of, tools_of, write_profile
from tests.process.runner.cli.calling import SECONDS, Ao, at_a_terminal, miniature, read_until

PROMPT = b"answer [1-2]: "
HOSTILE = "ls \x1b[2K\x1b[1A\u202e fdp.evil\x85\x0b\u2028" + "x" * 10_000 + "\n    1  Deny  [deny]\nthe end"


def test_a_hostile_input_is_shown_whole_and_a_wrong_answer_is_told(ao: Ao) -> None:
    profile = write_profile(ao, "asks", {"command": HOSTILE, "a\nb": "1"})

    with at_a_terminal(ao, "run", "agent.yaml", "-p", "x", "--profile", profile) as (process, terminal):
        shown = read_until(terminal, PROMPT).decode()
        os.write(terminal, b"3\n")
        told = read_until(terminal, PROMPT)
        os.write(terminal, b"1\n")
        rest = read_until(terminal).decode()
        assert process.wait(SECONDS) == 0

    asked = shown.partition("May Bash be called?")[2]
    flat = "".join(asked.split())
    assert "x" * 10_000 in flat
    assert "theend" in flat
    assert "⟨U+202E⟩" in asked
    assert "\\u001b[2K" in asked
    assert "\x1b[2K\x1b[1A\u202e" not in asked
    assert "\x85" not in asked
    assert b"'3' is no option; type a number from 1 to 2" in told
    assert "Answer 1." in rest
    assert resolutions_of(ao, "last") == [("accepted", "person")]


def test_an_answer_from_elsewhere_ends_the_question_and_no_typed_rest_answers_the_next_one(ao: Ao) -> None:
    ask = {"name": "Bash", "input": {"command": "ls"}, "ask": True}
    script = {"answers": [{"tools": [ask, ask], "text": "Done."}]}
    profile = write_profile(ao, "asks", config={"script": script})

    with at_a_terminal(ao, "run", "agent.yaml", "-p", "x", "--profile", profile) as (process, terminal):
        read_until(terminal, PROMPT)
        os.write(terminal, b"1")  # without its line end
        assert ao("answer", "last", "--deny").exit_code == 0
        assert b"answered elsewhere: declined" in read_until(terminal, PROMPT)
        os.write(terminal, b"2\n")
        read_until(terminal)
        assert process.wait(SECONDS) == 0

    assert resolutions_of(ao, "last") == [("declined", "person")] * 2
    assert tools_of(ao, "last") == ["denied"] * 2
    late = ao("answer", "last", "call_1_2", "--allow")
    assert late.exit_code == 2
    assert 'answered {"option_id": "deny"}' in late.stderr


def test_ctrl_c_at_the_question_cancels_the_run(ao: Ao) -> None:
    profile = write_profile(ao, "asks")

    with at_a_terminal(ao, "run", "agent.yaml", "-p", "x", "--profile", profile) as (process, terminal):
        read_until(terminal, PROMPT)
        process.send_signal(signal.SIGINT)  # it is no controlling terminal, which would send it
        read_until(terminal)
        assert process.wait(SECONDS) == 130

    assert resolutions_of(ao, "last") == [("cancelled", "policy")]


def test_after_ctrl_d_the_run_waits_for_an_answer_from_elsewhere(ao: Ao) -> None:
    profile = write_profile(ao, "asks")

    with at_a_terminal(ao, "run", "agent.yaml", "-p", "x", "--profile", profile) as (process, terminal):
        read_until(terminal, PROMPT)
        os.write(terminal, b"\x04")
        read_until(terminal, b"elsewhere: ao answer run_")
        run_id = ao("inputs", "--json").document[0]["run_id"]
        completed = ao(_AO_COMPLETE="bash_complete", COMP_WORDS=f"ao answer {run_id} ", COMP_CWORD="3")
        assert completed.stdout == "plain,call_1_1\n"
        assert ao("answer", "last", "--allow").exit_code == 0
        read_until(terminal)
        assert process.wait(SECONDS) == 0

    assert tools_of(ao, "last") == ["completed"]


def test_an_executor_that_dies_while_it_asks_leaves_its_request_cancelled(ao: Ao) -> None:
    ao.write("dies.json", f'{{"executor": "{miniature("dies_while_it_asks")}", "input": {{"wait_seconds": 3600}}}}')

    assert ao("run", "agent.yaml", "-p", "x", "--profile", "./dies.json").exit_code == 75

    assert resolutions_of(ao, "last") == [("cancelled", "policy")]
    assert ao("inputs", "--json").document == []


def test_nobody_is_asked_without_a_terminal_or_by_a_profile_that_denies(ao: Ao) -> None:
    for name, fields in (("silent", {}), ("denies", {"input": "deny"})):
        profile = write_profile(ao, name, **fields)
        assert ao("run", "agent.yaml", "-p", "x", "--profile", profile).exit_code == 0
        assert (resolutions_of(ao, "last"), tools_of(ao, "last")) == ([], ["denied"])


def test_a_store_that_cannot_be_read_for_a_while_is_told_once_and_answers_count_again(ao: Ao) -> None:
    profile = write_profile(ao, "asks")

    with at_a_terminal(ao, "run", "agent.yaml", "-p", "x", "--profile", profile) as (process, terminal):
        read_until(terminal, PROMPT)
        with closing(sqlite3.connect(ao.folder / "ao-home" / "ao.sqlite3")) as store:
            store.execute("ALTER TABLE inputs RENAME TO taken_away")
            read_until(terminal, b"! an answer from elsewhere cannot be read: ")
            store.execute("ALTER TABLE taken_away RENAME TO inputs")
        assert ao("answer", "last", "--deny").exit_code == 0
        rest = read_until(terminal)
        assert process.wait(SECONDS) == 0

    assert b"answered elsewhere: declined" in rest
    assert b"cannot be read" not in rest
    assert resolutions_of(ao, "last") == [("declined", "person")]
