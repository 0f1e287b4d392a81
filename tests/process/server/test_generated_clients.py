"""Clients that generators make from the OpenAPI document: each starts a run, follows it, and reads a typed result."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.test_generated_types import program, run
from tests.process.server.conftest import Served

CLIENTS: Final = Path(__file__).parent / "clients"
FOUND: Final = {
    "status": "completed",
    "data": {"echo": ["Hi"], "tags": []},
    "valid": True,
    "refused": "Run not found",
}
FOLLOW: Final = '''
"""Starts a run, follows it to its end, and prints its result."""

import json
import sys

from generated import Client
from generated.api.runs import create_run, get_run, get_run_result
from generated.models import CreatedRun, Refusal, RunBody, RunBodyParameters, RunBodyType, RunDetails, RunResult

client = Client(sys.argv[1], raise_on_unexpected_status=True)
parameters = RunBodyParameters.from_dict({"message": "Hi"})
created = create_run.sync(client=client, body=RunBody(RunBodyType.START_SESSION, parameters, agent_name="echo"))
assert isinstance(created, CreatedRun), created
run = None
while run is None or run.completed_at is None:
    run = get_run.sync(created.run_id, client=client, wait=30)
    assert isinstance(run, RunDetails), run
assert run.created_at <= run.completed_at
result = get_run_result.sync(run.run_id, client=client)
assert isinstance(result, RunResult), result
missing = get_run.sync("run_0", client=client)
assert isinstance(missing, Refusal), missing
found = {"status": run.status, "data": result.result_data, "valid": result.schema_validation.valid}
print(json.dumps({**found, "refused": missing.detail}))
'''

pytestmark = pytest.mark.thorough


@pytest.fixture
def document(served: Served, tmp_path: Path) -> Path:
    """The OpenAPI document of a server in a file."""
    path = tmp_path / "openapi.json"
    path.write_bytes(served.client.get("/openapi.json").raise_for_status().content)
    return path


def test_a_client_for_python(served: Served, document: Path, tmp_path: Path) -> None:
    generator = Path(program("openapi-python-client")).resolve()
    said = run([generator, "generate", "--path", document, "--output-path", "generated", "--meta", "none"], tmp_path)
    assert "WARNING" not in said
    assert "Unable" not in said
    (tmp_path / "follow.py").write_text(FOLLOW)
    assert found(run([generator.with_name("python"), "follow.py", served.url], tmp_path)) == FOUND


def test_a_client_for_typescript(served: Served, document: Path, tmp_path: Path) -> None:
    generator = Path(program("openapi-typescript"))
    node = program("node")
    packages = next(folder for folder in generator.resolve().parents if folder.name == "node_modules")
    run([generator, document, "-o", "api.ts", "--default-non-nullable=false"], tmp_path)
    (tmp_path / "node_modules").symlink_to(packages)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "follow.ts").write_bytes((CLIENTS / "follow.ts").read_bytes())
    options = ["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck"]
    run([node, packages / "typescript/bin/tsc", *options, "follow.ts"], tmp_path)
    assert found(run([node, "follow.js", served.url], tmp_path)) == FOUND


def found(printed: str) -> Any:
    return json.loads(printed.splitlines()[-1])
