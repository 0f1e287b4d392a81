"""The manifest of a worker agrees with `ao`, with its page and with itself. tests/process has its worker and probes."""

import json
import re
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
import yaml

from ao_runner.runs.run_request import GracePeriods
from tests.process.runner.cli.calling import Ao

ROOT = Path(__file__).parents[2]
MANIFEST = (ROOT / "docs" / "container" / "worker.yaml").read_text()
PAGE = (ROOT / "docs" / "recipe-kubernetes.md").read_text()
ENVIRONMENT, PRESTOP, STATEFUL = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
DELIVERY_SECONDS = 10
"""How long a worker delivers after a second signal (docs/worker.md)."""

config_map, deployment = yaml.safe_load_all(MANIFEST)
pod = deployment["spec"]["template"]["spec"]
(container,) = pod["containers"]
stop_seconds = sum(astuple(GracePeriods())) + DELIVERY_SECONDS


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    return Ao(tmp_path)


def test_every_option_and_variable_exists(ao: Ao) -> None:
    help_text = ao("worker", "--help").stdout
    options = [argument for argument in container["args"] if argument.startswith("--")]
    described = ao("executors", "describe", "claude-code").stdout
    sources = "".join(path.read_text() for path in (ROOT / "runner" / "ao_runner").rglob("*.py"))
    names = [variable["name"] for variable in container["env"]]

    dockerfile = (ROOT / "docs" / "container" / "Dockerfile").read_text()

    assert container["args"][0] == "worker"
    assert 'ENTRYPOINT ["ao"]' in dockerfile
    assert "postgres" in re.findall(r"'\.\[([\w,]+)\]'", dockerfile)[0].split(",")
    assert [option for option in options if f"  {option} " not in help_text] == []
    assert [name for name in names if f'"{name}"' not in sources and name not in described] == []


def test_the_grace_period_is_longer_than_a_run_its_stop_and_the_delivery() -> None:
    profile = yaml.safe_load(config_map["data"]["claude-code.yaml"])
    spec = yaml.safe_load(PRESTOP)
    (hooked,) = spec["containers"]
    (sleep,) = re.findall(r"kill -TERM 1; sleep (\d+)$", hooked["lifecycle"]["preStop"]["exec"]["command"][2])

    assert pod["terminationGracePeriodSeconds"] > profile["limits"]["timeout_seconds"] + stop_seconds
    assert spec["terminationGracePeriodSeconds"] > int(sleep) + stop_seconds


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_parts_of_the_manifest_fit_together(kind: str) -> None:
    template = json.loads(json.dumps(deployment["spec"]["template"]))
    spec, volumes = deployment["spec"], {volume["name"]: volume for volume in pod["volumes"]}
    if kind == "StatefulSet":
        instead: dict[str, Any] = yaml.safe_load(STATEFUL)
        (claim,) = instead["spec"]["volumeClaimTemplates"]
        volumes[claim["metadata"]["name"]] = claim
        assert instead["kind"] == kind
        assert instead["spec"]["serviceName"] == deployment["metadata"]["name"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    variables = {variable["name"]: variable.get("value", "") for variable in container["env"]}

    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert sorted(mounts.values()) == sorted(volumes)
    assert volumes["profiles"]["configMap"]["name"] == config_map["metadata"]["name"]
    assert mounts[str(Path(variables["AO_HOME"]).parent)] == "state"
    assert mounts[str(Path(variables["CLAUDE_CONFIG_DIR"]).parent)] == "state"
    assert mounts[variables["AO_PROFILES"]] == "profiles"


def test_the_page_shows_lines_of_the_manifest() -> None:
    assert ENVIRONMENT in MANIFEST
