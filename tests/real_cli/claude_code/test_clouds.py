"""Models that are asked through a cloud."""

import subprocess

import pytest

from ao_protocol.documents import parse_description
from ao_runner.runs.run_request import executor_environment
from tests.process.executors.http_serving import serving_http
from tests.real_cli.claude_code.claude import EXECUTOR
from tests.real_cli.claude_code.conftest import StartClaude

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
        ),
        pytest.param(VERTEX, "ANTHROPIC_VERTEX_BASE_URL", "/projects/project-7/locations/europe-west1/", id="Vertex"),
    ],
)
def test_a_cloud_is_asked_with_the_variables_that_a_runner_passes(
    start_claude: StartClaude, environ: dict[str, str], base_url: str, path: str
) -> None:
    description = parse_description(subprocess.run([*EXECUTOR, "describe"], capture_output=True, check=True).stdout)
    asked: list[str] = []

    def refuse(request: str, _headers: object, _body: object) -> tuple[int, object]:
        asked.append(request)
        return 400, {"message": "Access to cloud refused."}

    with serving_http(refuse) as url:
        given = {**environ, base_url: url}
        passed = executor_environment(given, description)
        run = start_claude(env=passed).run(executor_config={"max_api_retries": 0})

    assert passed == given
    assert any(path in request for request in asked), asked
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
