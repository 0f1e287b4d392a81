"""The program itself: what it loads, and when."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ao_runner.store.store import LatePart, Store
from tests.process.runner.cli.calling import Ao

COMMANDS = [
    ["run"],
    ["resume"],
    ["submit"],
    ["worker"],
    ["serve"],
    ["mcp"],
    ["runs"],
    ["top"],
    ["cancel"],
    ["sessions"],
    ["events"],
    ["result"],
    ["executors"],
    ["executors", "describe"],
    ["schema"],
    *(["schema", verb] for verb in ("add", "list", "show", "delete", "check", "from-model")),
    ["response"],
    *(["response", verb] for verb in ("show", "convert", "aggregate")),
    ["blueprint"],
    ["blueprint", "check"],
    ["store"],
    *(["store", verb] for verb in ("init", "migrate", "check", "prune")),
    ["doctor"],
    ["conformance"],
    ["conformance", "run"],
    ["conformance", "smoke"],
    ["conformance", "explain"],
    ["conformance", "codec"],
    ["conformance", "runner"],
    ["new"],
    ["new", "executor"],
    ["model-sim"],
    ["completion"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: list[str], ao: Ao) -> None:
    called = ao(*command, "--help")

    assert called.exit_code == 0
    assert called.stdout.startswith(f"Usage: ao {' '.join(command)} ")
    if command[1:] and command[0] in {"schema", "response", "store"}:
        assert f"ao {' '.join(command)} " in called.stdout.partition("Examples:")[2]


def test_the_help_names_every_command_without_loading_any(ao: Ao) -> None:
    script = (
        "import sys; from ao_runner.cli.program import program; program.main(['--help'], standalone_mode=False); "
        "print(sorted({'pydantic', 'rich', 'sqlite3', 'yaml', 'asyncio'} & set(sys.modules)))"
    )

    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout

    assert shown.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert f"\n  {command[0]} " in shown


LATER = {
    "ao_protocol.agent_response",
    "ao_protocol.contracts.enforcement",
    "ao_protocol.contracts.explanation",
    "ao_protocol.contracts.validation",
    "ao_protocol.contracts.verdicts",
    "ao_protocol.contracts.vetting",
    "ao_protocol.extraction",
    "ao_protocol.lifecycle",
    "ao_protocol.published",
    "ao_runner.cli.live_progress",
    "ao_runner.cli.message_tail",
    "ao_runner.cli.progress_lines",
    "ao_runner.processes.calls",
    "ao_runner.runs.asked_in_json",
    "ao_runner.runs.attaching",
    "ao_runner.runs.contract_loop",
    "ao_runner.runs.lost_runs",
    "ao_runner.runs.narration",
    "ao_runner.store.run_filter",
    "ao_runner.store.worker_table",
    *(f"ao_runner.store.{part._module}" for part in vars(Store).values() if isinstance(part, LatePart)),
    "click.shell_completion",
    "importlib.metadata",
    "jsonschema_rs",
    "rich",
    "yaml",
}
"""What few runs need, or none before its executor has the invocation."""


def test_a_run_is_sent_before_what_only_its_answer_needs_is_imported(ao: Ao) -> None:
    blueprint = ao.folder / "agent.json"
    blueprint.write_text('{"name": "greeter", "system_prompt": "You greet."}')
    script = (
        "import os, sys\nreal = os.write\n"
        "def write(descriptor, data):\n"
        "    if descriptor > 2 and b'\"mode\"' in bytes(data):\n"
        f"        print(sorted({LATER!r} & set(sys.modules)), file=sys.stderr)\n"
        "    return real(descriptor, data)\n"
        "os.write = write\nfrom ao_runner.cli import main\nmain()"
    )

    argv = [sys.executable, "-c", script, "run", str(blueprint), "-p", "Hi", "--executor", "echo"]
    done = subprocess.run(
        argv, cwd=ao.folder, env=ao.environment(), capture_output=True, text=True, check=True, timeout=60
    )

    assert "[]" in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        ("click", "cli", "run"),
        ("yaml", "cli", "blueprint"),
        ("platformdirs", "cli", "sessions"),
        ("structlog", "worker", "worker"),
        ("psycopg", "postgres", "runs"),
        ("fastapi", "serve", "serve"),
        ("mcp", "serve", "mcp"),
    ],
)
def test_without_the_extra_it_says_what_to_install(missing: str, extra: str, command: str, ao: Ao) -> None:
    arguments = {"blueprint": ["check", "agent.yaml"], "worker": ["--home", str(ao.folder / "home")]}.get(command, [])
    if missing == "psycopg":
        arguments = ["--store", "postgresql://host/db"]
    script = f"import sys; sys.modules[{missing!r}] = None; import ao_runner.cli as cli; cli.main()"
    environment = ao.environment()
    del environment["AO_HOME"]

    argv = [sys.executable, "-c", script, command, *arguments]
    done = subprocess.run(argv, cwd=ao.folder, env=environment, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr.strip()) == (
        2,
        f'ao: this needs the package {missing}; install it with: pip install "ao-executor-protocol[{extra}]"',
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(shell: str, ao: Ao) -> None:
    called = ao("completion", shell)

    assert called.exit_code == 0
    assert "_AO_COMPLETE" in called.stdout


def test_sessions_can_be_completed(ao: Ao) -> None:
    from tests.process.runner.cli.calling import miniature

    ao("run", "agent.yaml", "-p", "x", "--executor", miniature("answers_at_once"))

    completed = ao(_AO_COMPLETE="bash_complete", COMP_WORDS="ao result ses_", COMP_CWORD="2")

    assert completed.stdout.startswith("plain,ses_")


def test_the_versions_are_told(ao: Ao) -> None:
    versions = ao("version", "--json").document

    assert versions["protocol_version"] == "3.0" == versions["protocol_versions"][0]
    assert ao("version").stdout == f"ao {versions['version']} (protocol 3.0)\n" == ao("--version").stdout


def test_the_reference_names_every_command_and_option(ao: Ao) -> None:
    docs = Path(__file__).parents[4] / "docs"
    reference = "".join(page.read_text() for page in docs.glob("*.md"))

    for command in COMMANDS:
        shown = _options_of(ao, command) if command != ["model-sim"] else ""
        for option in re.findall(r"--[a-z][a-z-]+(?: / --[a-z-]+)?", shown):  # of a pair, one is the default
            assert any(one in reference for one in option.split(" / ")), f"{' '.join(command)} {option}"


def _options_of(ao: Ao, command: list[str]) -> str:
    shown = ao(*command, "--help").stdout
    return shown.partition("Options:")[2].partition("Examples:")[0].replace("--help", "")
