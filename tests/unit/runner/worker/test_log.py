"""The lines that a worker writes."""

import json

import pytest

from ao_protocol.redaction import Redactor
from ao_runner.worker.log import LogFormat, open_log

SECRET = 'a "quoted" key'


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("secret", ["a-plain-secret", SECRET])
def test_a_secret_of_this_host_is_in_no_line(
    log_format: LogFormat, secret: str, capfd: pytest.CaptureFixture[str]
) -> None:
    log = open_log(log_format, colours=False, redactor=Redactor({"TOKEN": secret}))

    log.warning("coordinator is not available", reason=f"401: {secret} is not known", details={"token": secret})

    line = capfd.readouterr().err
    assert "***" in line
    assert secret not in line
    assert json.dumps(secret)[1:-1] not in line
    if log_format == "json":
        assert json.loads(line)["reason"] == "401: *** is not known"


def test_a_line_of_json_names_its_worker(capfd: pytest.CaptureFixture[str]) -> None:
    open_log("json", colours=False, worker="w1").info("run begins", run_id="run_1", note="two\nlines")

    written = capfd.readouterr().err
    assert written.count("\n") == 1
    assert json.loads(written) == {
        "timestamp": json.loads(written)["timestamp"],
        "level": "info",
        "event": "run begins",
        "worker": "w1",
        "run_id": "run_1",
        "note": "two\nlines",
    }


def test_people_get_a_short_line_that_cannot_steer_their_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    log = open_log("console", colours=False, worker="w1")

    log.info("run ended", run_id="run_1", session_id="ses_1", profile="/a/b/reviewer.yaml", seconds={"reaped": 1.23})
    log.info("\x1b[2Jgone", reason="a\x1b]0;title\x07b\r\nc")

    first, second = capfd.readouterr().err.splitlines()
    assert first[8:] == " · run ended        run_1 profile=reviewer seconds=1.2"
    assert second[8:] == " ·  [2Jgone         reason=a ]0;title b  c"
