"""Every command of README and docs runs as written, from top to bottom, in a fresh clone with a bare environment.

Fenced blocks of `bash`, and lines of `console` blocks that begin with `$ `, are the commands of a page. A block whose
first line is a comment with a file's name is that file, and so is one that "Save it as" follows. Only the model is
replaced. `pytest -rP` prints the commands that ran.
"""

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from ao_model_simulator import ModelSimulator, Script
from ao_model_simulator.endpoints import environment_for
from tests.postgres_server import PostgresServer, require_server
from tests.process.executors.examples.building import skip_without
from tests.real_cli.programs import CLAUDE_CLI
from tests.repositories import skip_outside_a_clone

SECONDS: Final = 900
pytestmark = [  # half an hour; the README's own commands are a part of .ci/run
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 30),
]

ROOT = Path(__file__).parents[2]
GIT: Final = shutil.which("git") or "git"

NOT_RUN: Final = {
    ".ci/release": "a section of the changelog, and what only the publisher knows (tests/docs/test_release.py)",
    "pytest": "nothing: they are what runs here",
    ".ci/run": "nothing: it runs these tests",
    "docker": "a Docker daemon",
    "kubectl": "a cluster",
    "CLAUDE_CODE_USE_": "an account of that cloud",
    "--model eu.anthropic": "an account of that cloud",
    "coordinator.example": "a coordinator of that name; tests/process/runner/coordinators has one",
    "tests.conformance.mutation": "two hours",
    "tests.conformance.pages": "ten minutes: it is a step of CI",
    "ao.example": "a server of that name; tests/process/server has one",
    "codec.js": "a parser of the reader's",
    "my-runner": "a runner of the reader's",
    "{blueprint}": "what the suite puts in the place of the braces",
    "{prompt}": "what the suite puts in the place of the braces",
    "{file}": "what the suite puts in the place of the braces",
    "ao conformance runner   ": "a minute: it is a step of CI",
    "systemctl": "systemd",
    "npm install -g": "an agent for the whole machine; tests/real_cli/acp has one",
    "--executor gemini": "that agent, and its key",
    "bat_4c5ab0": "a batch of the reader's",
    "createdb": "nothing: the server of the test has the database",
    "8765/webhooks": "a receiver in the network; tests/process/server/test_told.py has one",
    "openapi-python-client": "that generator; tests/process/server/test_generated_clients.py runs both",
    "npx openapi-typescript": "that generator; tests/process/server/test_generated_clients.py runs both",
    "json2ts": "that generator; tests/conformance/test_generated_types.py runs it",
    "tsc --strict": "that compiler; tests/conformance/test_generated_types.py runs it",
    "ao-typescript-exec.js": "what the compiler writes; tests/conformance/test_generated_types.py tests it",
    "--level standard --report": "two minutes; .ci/slow tests every executor",
    "node other.js": "minutes; tests/conformance/test_several.py tests several",
}
"""What is not run here, by a part of the command, and what it would need."""

PREPARED: Final = {
    "sizing.md": "ao run docs/examples/file-finder/blueprint.json -p hi --executor echo",
    "upgrade.md": "cp executors/examples/bash/ao-bash-exec ao-mine-exec",
    "workspaces.md": r"""
printf '#!/bin/sh\necho made > made.txt\n' > make.sh && chmod +x make.sh
printf 'executor: command\nworkspace: worktree\nconfig: {argv: ["%s/make.sh"]}\n' "$PWD" > worktree.yaml
ao run docs/examples/file-finder/blueprint.json -p hi --profile ./worktree.yaml
SESSION=$(ao sessions --json | jq -r '.[0].session_id')""",
}
"""What a reader of a page has already."""

STANDS_FOR: Final = {"ses_4c5ab0": "$SESSION", "http://127.0.0.1:8765": "$SERVER"}
"""What a page writes for what the reader has, and what it is here. `DATABASE` stands for that of many-hosts.md."""
DATABASE: Final = "postgresql://ao@db.example/ao"

TESTED_ELSEWHERE: Final = {
    "agent-response.md": "tests/process/runner/cli/test_response.py",
    "conformance-codec.md": "tests/conformance/test_codec.py",
    "model-simulator.md": "tests/conformance/test_model_sim_script.py",
    "named-schemas.md": "tests/process/runner/cli/test_schema.py",
    "recipe-temporal.md": "tests/docs/test_recipe_temporal.py",
}
"""Pages whose commands have tests of their own, which look at the output too."""

PRELUDE: Final = r"""
set -euo pipefail
# What serves until it is stopped is stopped by SIGTERM once it says that it is ready.
ao() {
    case "$*" in
        "serve token"* | *--until-idle* | *"--coordinator stdout"*) command ao "$@" ;;
        worker* | serve*) serve "$@" ;;
        *) command ao "$@" ;;
    esac
}
serve() {
    local said; said=$(mktemp)
    "${AO:-$(type -P ao)}" "$@" > "$said" 2>&1 < /dev/null & local pid=$!
    until grep -q 'worker started' "$said"; do
        kill -0 $pid || { cat "$said" >&2; return 1; }
        sleep 0.1
    done
    kill -TERM $pid
    wait $pid || { cat "$said" >&2; return 1; }
}
# A server that runs until the end of the page.
serve_on() {
    command ao serve --port 0 > "$HOME/serve.log" 2>&1 < /dev/null & trap "kill $!" EXIT
    until SERVER=$(grep -om 1 'http://127[0-9.:]*' "$HOME/serve.log"); do kill -0 $!; sleep 0.1; done
}
"""

BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$(?:\n\nSave it as [^\n]*?`([\w.-]+)`)?", re.DOTALL | re.MULTILINE)
NAME: Final = re.compile(r"# ([\w./-]+)\n")
FILES: Final = ("yaml", "python", "sh", "json")

REVIEW: Final = {"summary": "Good.", "approval": "approve", "comments": []}
TRIAGE: Final = {"topic": "payment", "urgent": True}
FILES_FOUND: Final = {"files": [{"path": "src/auth.ts", "reason": "checks tokens"}]}
NOTE: Final = {"title": "Faster", "kind": "changed", "breaking": False}
ANSWERS: Final[dict[str, list[dict[str, Any]]]] = {
    "README.md": [{"json": TRIAGE, "repeat": "forever"}],
    "contracts.md": [{"json": FILES_FOUND}, {"json": NOTE}, {"json": FILES_FOUND}],
    "documents-to-data.md": [],
    "moving.md": [
        {
            "content": [
                {"type": "tool_use", "name": "StructuredOutput", "input": {"summary": "Good.", "approval": "approve"}}
            ]
        },
        {"text": "The tests are good, too.", "repeat": "forever"},
    ],
    "python.md": [{"json": {"severity": "high", "team": "payments"}}, {"text": "Hello.", "repeat": "forever"}],
}
"""What the model answers to the commands of a page; to those of any other it says REVIEW."""


@dataclass(frozen=True)
class Step:
    """A file to write, or a command to run."""

    text: str
    file: str | None = None


def steps_of(page: str) -> list[Step]:
    steps = []
    for language, text, saved_as in BLOCK.findall(page):
        if language == "bash":
            steps += [Step(command) for command in commands_in(text)]
        elif language == "console":
            steps += [Step(command[2:]) for command in commands_in(text) if command.startswith("$ ")]
        elif saved_as:
            steps.append(Step(text, saved_as))
        elif language in FILES and (named := NAME.match(text)):
            steps.append(Step(text[named.end() :], named[1]))
    return steps


def commands_in(text: str) -> list[str]:
    """Return the commands of a block: lines, with the lines that continue them, here-documents included."""
    return [
        match[0].strip()
        for match in re.finditer(r"^(?!#|\s).*?<<'(\w+)'\n(?:.*\n)*?\1\n|^(?!#)\S(?:.*\\\n)*.*\n", text, re.MULTILINE)
    ]


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if page.name not in TESTED_ELSEWHERE and any(step.file is None for step in steps_of(page.read_text()))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_run_as_written(page: Path, tmp_path: Path) -> None:
    skip_outside_a_clone()
    skip_without("jq", "the example in bash")
    clone, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    make_clone(clone)
    installs_itself = page.name == "README.md"
    programs = [] if installs_itself else [str(Path(sys.executable).parent), str(CLAUDE_CLI.parent)]
    answers = ANSWERS.get(page.name, [{"json": REVIEW, "repeat": "forever"}])
    text = page.read_text()
    with ExitStack() as stack:
        model = stack.enter_context(ModelSimulator(Script.from_answers(answers)))
        if DATABASE in text:
            require_server()
            text = text.replace(DATABASE, f"'{stack.enter_context(PostgresServer()).new_database()}'")
        environment = {
            **environment_for("anthropic", model.url),
            **environment_for("openai-responses", model.url),
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "HOME": str(home),
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))},
        }
        script = tmp_path / "page.sh"
        script.write_text(script_of(steps_of(text), PREPARED.get(page.name, ""), installs_itself=installs_itself))
        finished = subprocess.run(
            ["/bin/bash", script],
            cwd=clone, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    told = f"{finished.stdout.decode()[-6000:]}\n--- stderr\n{finished.stderr.decode()[-6000:]}"
    print("\n".join(re.findall(r"^\+\+ .*$", finished.stdout.decode(), re.MULTILINE)))  # noqa: T201
    assert finished.returncode == 0, told


def make_clone(clone: Path) -> None:
    """Copy what git knows of the project, with changes that are not committed yet, into a repository of its own."""
    listed = subprocess.run(
        [GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    me = ["-c", "user.name=a reader", "-c", "user.email=reader@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], [*me, "commit", "-q", "-m", "A clone"]):
        subprocess.run([GIT, *arguments], cwd=clone, check=True)
    subprocess.run([GIT, *me, "commit", "-q", "--allow-empty", "-m", "A change to look at"], cwd=clone, check=True)


def script_of(steps: list[Step], prepared: str, *, installs_itself: bool) -> str:
    lines = [PRELUDE, prepared]
    if any("http://127.0.0.1:8765/" in step.text for step in steps if step.file is None and not needed_by(step.text)):
        lines.append("serve_on")
    for number, step in enumerate(steps):
        if step.file is not None:
            lines.append(f"cat > {step.file} <<'END_OF_{number}'\n{step.text}END_OF_{number}")
            lines.append(f"chmod +x {step.file}" if step.text.startswith("#!") else "")
            continue
        needed = needed_by(step.text)
        if step.text.startswith("pip install") and not installs_itself:
            needed = "nothing: the packages are there"
        if needed is not None:
            lines.append(f"cat <<'END_OF_{number}'\n++ NOT RUN, it needs {needed}: {step.text}\nEND_OF_{number}")
            continue
        lines.append(f"cat <<'END_OF_{number}'\n++ {step.text}\nEND_OF_{number}")
        command = step.text.replace(".venv/bin/ao serve", "AO=.venv/bin/ao serve serve")
        for written, meant in STANDS_FOR.items():
            command = command.replace(written, meant)
        lines.append(command)
    return "\n".join(lines) + "\n"


def needed_by(command: str) -> str | None:
    """Return what a command would need to run here; None if it runs."""
    return next((needs for part, needs in NOT_RUN.items() if part in command), None)
