"""Models that are asked through a cloud."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ao_protocol.documents import parse_description
from ao_runner.runs.run_request import executor_environment
from tests.executors.claude_code.claude import EXECUTOR
from tests.executors.claude_code.conftest import StartClaude

BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
VERTEX = {
    "CLAUDE_CODE_USE_VERTEX": "1",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH": "1",
    "ANTHROPIC_VERTEX_PROJECT_ID": "project-7",
    "CLOUD_ML_REGION": "europe-west1",
}
AWS_KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIACANARY",
    "AWS_SECRET_ACCESS_KEY": "aws-canary-1",
    "AWS_SESSION_TOKEN": "aws-canary-2",
}


@pytest.mark.parametrize(
    ("environ", "base_url", "path"),
    [
        pytest.param({**BEDROCK, **AWS_KEYS}, "ANTHROPIC_BEDROCK_BASE_URL", "/model/", id="Bedrock, signed"),
        pytest.param(
            {**BEDROCK, "AWS_BEARER_TOKEN_BEDROCK": "bearer-canary"},
            "ANTHROPIC_BEDROCK_BASE_URL",
            "/model/",
            id="Bedrock, by token",
            marks=pytest.mark.slow,
        ),
        pytest.param(VERTEX, "ANTHROPIC_VERTEX_BASE_URL", "/projects/project-7/locations/europe-west1/", id="Vertex"),
    ],
)
def test_a_cloud_is_asked_with_the_variables_that_a_runner_passes(
    start_claude: StartClaude, environ: dict[str, str], base_url: str, path: str
) -> None:
    description = parse_description(subprocess.run([*EXECUTOR, "describe"], capture_output=True, check=True).stdout)
    with refusing_cloud() as (url, paths):
        given = {**environ, base_url: url}
        passed = executor_environment(given, description)
        run = start_claude(env=passed).run(executor_config={"max_api_retries": 0})

    assert passed == given
    assert any(path in asked for asked in paths), paths
    assert "Access to cloud refused." in run.error["message"]


@pytest.mark.requirement("AOX-198")
def test_tools_are_given_no_secret_of_a_cloud(start_claude: StartClaude) -> None:
    tool = {"type": "tool_use", "name": "Bash", "input": {"command": "env"}}
    claude = start_claude({"content": [tool]}, {"text": "Done."}, env=AWS_KEYS)
    run = claude.run(executor_config={"allowed_tools": ["Bash"]})
    printed = run.of_type("tool_finished")[0]["tool_output"]["stdout"]
    assert "PATH=" in printed
    assert "AWS_SECRET_ACCESS_KEY" not in printed
    assert "AWS_SESSION_TOKEN" not in printed


@contextmanager
def refusing_cloud() -> Iterator[tuple[str, list[str]]]:
    """Serve a cloud that refuses every request; yields its address and the paths that are asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.refuse()

        def do_GET(self) -> None:
            self.refuse()

        def refuse(self) -> None:
            paths.append(self.path)
            body = json.dumps({"message": "Access to cloud refused."}).encode()
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", paths
        finally:
            server.shutdown()
            serving.join()
