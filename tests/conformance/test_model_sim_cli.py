"""`ao model-sim` as a process: how it says that it listens, and how it ends."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WAIT_SECONDS = 100.0
COMMAND = [sys.executable, "-m", "ao_model_simulator"]
TURN = json.dumps({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}).encode()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.json"
    path.write_text('{"answers": [{"text": "Hello."}]}')
    return path


@contextmanager
def running(script: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and its address; whatever a test does, nothing is left."""
    with subprocess.Popen(
        [*COMMAND, str(script), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready["pid"] == process.pid
            openai = f"{ready['url']}/v1"
            of_openai = {"openai-chat": openai, "openai-responses": openai}
            assert ready["base_urls"] == {"anthropic": ready["url"], "gemini": ready["url"], **of_openai}
            yield process, ready["url"]
        finally:
            process.kill()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def post(url: str) -> int:
    request = urllib.request.Request(f"{url}/v1/messages", TURN)  # noqa: S310 - the address is our own
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:  # noqa: S310 - likewise
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_a_satisfied_script_is_success(script: Path, number: signal.Signals) -> None:
    with running(script) as (process, url):
        assert post(url) == 200
        process.send_signal(number)
        assert process.communicate(timeout=WAIT_SECONDS) == ("", "")
        assert process.returncode == 0


def test_it_outlives_its_stdin_otherwise(script: Path) -> None:
    with running(script) as (process, url):
        assert process.stdin is not None
        process.stdin.close()
        assert post(url) == 200
        assert process.poll() is None


@pytest.mark.parametrize(
    ("options", "answers", "report"),
    [
        ((), [200, 400], "request 2 is not in the script (1 answer)"),
        (("--strict",), [], "1 of the script's answers were not asked for"),
    ],
    ids=["an unexpected request", "unused answers when strict"],
)
def test_what_is_not_as_scripted_is_reported_and_makes_it_fail(
    script: Path, options: tuple[str, ...], answers: list[int], report: str
) -> None:
    with running(script, "--exit-with-stdin", *options) as (process, url):
        assert [post(url) for _ in answers] == answers
        assert process.communicate(timeout=WAIT_SECONDS)[1] == f"model-sim: {report}\n"
        assert process.returncode == 1


def test_requests_are_recorded_as_they_come(script: Path, tmp_path: Path) -> None:
    record_file = tmp_path / "requests.ndjson"
    with running(script, "--record", str(record_file)) as (_, url):
        post(url)
        (record,) = [json.loads(line) for line in record_file.read_text().splitlines()]
        assert record["body"]["model"] == "m"


def test_a_script_can_be_checked_without_serving_it(script: Path) -> None:
    completed = run(str(script), "--check")
    assert completed.stdout == f"{script}: a valid script, answers: 1\n"
    assert completed.returncode == 0


def test_a_wrong_script_is_explained(script: Path) -> None:
    script.write_text('{"answers": [{"txt": "Hello."}]}')
    completed = run(str(script))
    message = f"model-sim: {script}: answers[0].txt: found an unknown field; expected text, perhaps\n"
    assert (completed.returncode, completed.stdout, completed.stderr) == (2, "", message)


def test_a_port_that_is_taken_is_explained(script: Path) -> None:
    with running(script) as (_, url):
        port = url.rpartition(":")[2]
        completed = run(str(script), "--port", port)
    assert completed.returncode == 2
    assert completed.stderr == f"model-sim: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_person_at_a_terminal_is_told_what_to_do_next(script: Path) -> None:
    controller, terminal = pty.openpty()
    try:
        with subprocess.Popen([*COMMAND, str(script)], stdout=terminal, stderr=terminal) as process:
            try:
                shown = b""
                while b"Ctrl-C" not in shown:
                    shown += os.read(controller, 4096)
            finally:
                process.terminate()
            assert process.wait(WAIT_SECONDS) == 0
        address = re.search(rb"listens at (http://127.0.0.1:\d+)", shown)
        assert address is not None
        for variable in (b"ANTHROPIC_BASE_URL=%b", b"OPENAI_BASE_URL=%b/v1", b"GOOGLE_GEMINI_BASE_URL=%b"):
            assert b"export %b\r\n" % (variable % address[1]) in shown
    finally:
        os.close(controller)
        os.close(terminal)
