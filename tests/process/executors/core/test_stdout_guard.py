"""What reaches stdout: events, and nothing else, whoever prints and whoever reads."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from ao_executors.core.stdio import Stdio
from tests.process.executors.driver import bare_environment, installed, invocation, line_of, run, wait_until
from tests.process.executors.homemade import homemade

COUNT = "import sys; print(len(sys.stdin.buffer.read()))"
NOISY = {
    "print": "print('NOISE', flush=True)",
    "print without a flush": "print('NOISE')",
    "descriptor 1": "os.write(1, b'NOISE')",
    "the original stdout object": "sys.__stdout__.write('NOISE')",
    "a child process": "subprocess.run(['/bin/echo', 'NOISE'])",
    "a child process of a child": "subprocess.run(['/bin/sh', '-c', '/bin/echo NOISE'])",
    "a thread": "thread = threading.Thread(target=print, args=('NOISE',)); thread.start(); thread.join()",
    "a child that keeps what it inherits": "subprocess.run(['/bin/echo', 'NOISE'], close_fds=False)",
}


@pytest.mark.requirement("AOX-190")
@pytest.mark.parametrize("noise", [pytest.param(noise, id=name) for name, noise in NOISY.items()])
def test_noise_lands_on_stderr(tmp_path: Path, noise: str) -> None:
    ended = run(homemade(tmp_path, f"{noise}\nreturn done"), invocation())

    assert ended.types == ["run_started", "result"]
    assert b"NOISE" not in ended.stdout
    assert "NOISE" in ended.stderr


@pytest.mark.requirement("AOX-190")
@pytest.mark.parametrize("end", ["sys.exit(0)", "return done", "raise ValueError('in the child')"])
def test_a_process_that_the_work_forks_off_tells_nothing(tmp_path: Path, end: str) -> None:
    body = f"child = os.fork()\nif not child:\n    {end}\nos.waitpid(child, 0)\nreturn done"

    ended = run(homemade(tmp_path, body), invocation())

    assert ended.types == ["run_started", "result"]


@pytest.mark.requirement("AOX-198")
def test_a_secret_in_a_fault_is_taken_out_of_its_traceback(tmp_path: Path) -> None:
    argv = homemade(tmp_path, "raise ValueError('the key is ' + os.environ['HOMEMADE_KEY'])")

    ended = run(argv, invocation(), env=bare_environment() | {"HOMEMADE_KEY": "a-long-secret"})

    assert ended.error["message"] == "ValueError: the key is ***"
    assert "a-long-secret" not in ended.stderr
    assert "ValueError: the key is ***" in ended.stderr


@pytest.mark.requirement("AOX-195")
def test_a_stdout_that_somebody_made_non_blocking_loses_nothing() -> None:
    line = b"x" * 400_000 + b"\n"  # several times what a pipe takes at once
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stdio = Stdio(stdin_fd=reading, stdout_fd=writing)
    # The reader is still being started when the first of it is written.
    with subprocess.Popen([sys.executable, "-c", COUNT], stdin=reading, stdout=subprocess.PIPE) as reader:
        stdio.write(line)
        os.close(writing)
        os.close(reading)
        counted, _ = reader.communicate(timeout=100)

    assert int(counted) == len(line)


@pytest.mark.requirement("AOX-020")
def test_a_stdin_that_somebody_made_non_blocking_is_waited_for() -> None:
    document = line_of(invocation())
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, document[:20])
    with subprocess.Popen([installed("ao-echo-exec")], stdin=reading, stdout=subprocess.PIPE) as executor:
        wait_until(lambda: not select.select([reading], [], [], 0)[0])
        os.write(writing, document[20:])
        os.close(writing)
        os.close(reading)
        stdout, _ = executor.communicate(timeout=100)

    assert json.loads(stdout.splitlines()[-1])["result_text"] == "Hi"


@pytest.mark.parametrize("arguments", ["", "describe"])
def test_a_stdout_that_is_closed_is_told_in_a_sentence(arguments: str) -> None:
    said = subprocess.run(
        ["/bin/sh", "-c", f"{installed('ao-echo-exec')} {arguments} >&-"],
        input=line_of(invocation()),
        stderr=subprocess.PIPE,
        timeout=100,
        check=False,
    )

    assert said.stderr == b"ao-echo-exec: stdout is closed, so nothing can be told; start it with one\n"
    assert said.returncode == 2


@pytest.mark.requirement("AOX-021", "AOX-022")
def test_a_line_may_be_cut_at_every_byte() -> None:
    whole = line_of(invocation(parameters={"prompt": "Grüße 🦊\nzweite Zeile"}))
    line = whole.replace(b"\n", b"\r\n")
    for offset in range(1, len(line)):
        reading, writing = os.pipe()
        stdio = Stdio(reading, -1)
        os.write(writing, line[:offset])
        if offset < len(line):
            assert list(stdio.read_lines()) == []
        os.write(writing, line[offset:])
        assert stdio.read_invocation_line() == whole.rstrip(b"\n")
        os.close(writing)
        os.close(reading)
