"""The reports on our own executors, as pages of the documentation, failures included.

Run: python -m tests.conformance.pages [NAME… | --foreign | --no-foreign] [--into FOLDER] [--jobs N]. Exits with 1 where
one does not pass the level that it claims. C, Go and Rust, which are built first, took 26 s together on a machine that
others used too (2 shared cores, 2026-11-22, `python -m tests.conformance.pages c go rust`); of that the building was
6 s.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ao_conformance.reports import REPORT_KINDS
from ao_conformance.subject import USUAL_SHELL_TOOL
from ao_conformance.suite import Plan, run_suite
from ao_conformance.tally import KnownFailing, load_known_failing
from ao_conformance.vectors import load_process_vectors, requirements_by_id
from ao_conformance.verdict import SuiteResult, Verdict
from tests.process.executors.driver import installed
from tests.process.executors.examples.building import PROGRAMS, build_example, is_there
from tests.real_cli.programs import CLAUDE_CLI

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "executors" / "examples"


@dataclass(frozen=True, slots=True)
class Claim:
    """An executor of ours, and the level that it claims to keep."""

    name: str
    command: Sequence[str]
    level: str
    base: str | None = None
    """A file with the defaults of its invocations, by its path in the project."""
    known: str | None = None
    """A file with the rules that it cannot keep, each with the reason, by its path in the project."""
    environment: Mapping[str, str] = field(default_factory=dict)
    agent: str | None = None
    """The program behind it, if one has to install it."""
    shell_tool: tuple[str, str] = USUAL_SHELL_TOOL
    jobs: int = 4
    out_of_reach: frozenset[str] | None = None
    """Vectors whose moment never comes with it. Where others do not come either, it is not tested as it seems to be.
    None where that says nothing, as of an executor without tools."""

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options, but for the level, with which `ao conformance run` tests the same."""
        base = () if self.base is None else ("--base", self.base)
        tool = () if self.shell_tool == USUAL_SHELL_TOOL else ("--shell-tool", ":".join(self.shell_tool))
        environment = (part for name, value in self.environment.items() for part in ("--env", f"{name}={value}"))
        known = () if self.known is None else ("--known-failing", self.known)
        return (*base, *known, *tool, *environment)


CLAUDE_ENVIRONMENT = {"IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "1"}
CLAUDE_NEVER = frozenset(
    {"turns-count-alone", "denied-call", "resumed-call", "resumed-call-without-its-answer", "unanswered-call"}
)
"""It ends the first run by `limit_exceeded`, so that there is no second one. Its base allows Bash, so nobody is asked:
tests/real_cli/claude_code/test_permissions.py asks."""
CLAIMS = [
    Claim(
        name="claude-code",
        command=[installed("ao-claude-code-exec")],
        level="standard",
        base="docs/conformance/claude-code-base.json",
        environment=CLAUDE_ENVIRONMENT,
        out_of_reach=CLAUDE_NEVER,
    ),
    Claim(
        name="codex",
        command=[installed("ao-codex-exec")],
        level="standard",
        base="docs/conformance/codex-base.json",
        shell_tool=("exec_command", "cmd"),
    ),
    Claim(
        name="claude-acp",
        command=[installed("ao-claude-acp-exec")],
        level="standard",
        base="docs/conformance/claude-acp-base.json",
        known="docs/conformance/claude-acp-known.txt",
        environment=CLAUDE_ENVIRONMENT | {"CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI)},
        agent="claude-agent-acp",
    ),
    Claim(
        name="gemini",
        command=[installed("ao-gemini-exec")],
        level="standard",
        base="docs/conformance/gemini-base.json",
        known="docs/conformance/gemini-known.txt",
        agent="gemini",
        shell_tool=("run_shell_command", "command"),
    ),
    Claim(
        name="opencode",
        command=[installed("ao-opencode-exec")],
        level="standard",
        base="docs/conformance/opencode-base.json",
        known="docs/conformance/opencode-known.txt",
        agent="opencode",
        shell_tool=("bash", "command"),
    ),
    Claim(
        name="qwen",
        command=[installed("ao-qwen-exec")],
        level="standard",
        base="docs/conformance/qwen-base.json",
        known="docs/conformance/qwen-known.txt",
        agent="qwen",
        shell_tool=("run_shell_command", "command"),
    ),
    Claim(
        name="command",
        command=[installed("ao-command-exec")],
        level="standard",
        base="docs/conformance/command-base.json",
        environment={"PROGRAM": f"{ROOT}/tests/process/executors/command/ask_model.py"},
    ),
    Claim("echo", [installed("ao-echo-exec")], "standard"),
    Claim("procedural", [installed("ao-procedural-exec")], "standard"),
    Claim("scripted", [installed("ao-scripted-exec")], "standard"),
    Claim("bash", [str(EXAMPLES / "bash" / "ao-bash-exec")], "core"),
    Claim("node", [str(EXAMPLES / "node" / "ao-node-exec")], "core"),
    Claim("node-model", [str(EXAMPLES / "node-model" / "ao-node-model-exec")], "core"),
    Claim("perl", [str(EXAMPLES / "perl" / "ao-perl-exec")], "core"),
    Claim("php", [str(EXAMPLES / "php" / "ao-php-exec")], "core"),
    Claim("ruby", [str(EXAMPLES / "ruby" / "ao-ruby-exec")], "core"),
    Claim("python", [installed("python"), str(EXAMPLES / "python" / "ao-python-exec")], "core"),
]
BUILT = ("c", "go", "rust")
"""Examples that are built first; they keep the core."""


def claims_that_can_be_judged(names: Sequence[str], folder: Path) -> Iterator[Claim]:
    """Yield what was asked for, all of it by default, and say what cannot be started. `folder` is for what is built."""
    for claim in CLAIMS:
        if names and claim.name not in names:
            continue
        missing = [name for name in (claim.command[0], claim.agent) if name and shutil.which(name) is None]
        if missing:
            print(f"!! {claim.name}: {missing[0]} cannot be started here; its page stays as it is", flush=True)
            continue
        yield claim
    for language in BUILT:
        if names and language not in names:
            continue
        if not is_there(PROGRAMS[language]):
            print(f"!! {language}: {PROGRAMS[language]} does not run here; its page stays as it is", flush=True)
            continue
        yield Claim(language, [str(build_example(language, folder / language, language))], "core")


def judge_claim(claim: Claim) -> SuiteResult:
    """Play the suite at an executor, with everything that it needs."""
    rules = frozenset(requirements_by_id())
    known = KnownFailing() if claim.known is None else load_known_failing(ROOT / claim.known, rules)
    return run_suite(
        Plan(
            command=tuple(claim.command),
            level=claim.level,
            vectors=load_process_vectors(),
            base={} if claim.base is None else json.loads((ROOT / claim.base).read_text(encoding="utf-8")),
            known_failing=known,
            environment=claim.environment,
            shell_tool=claim.shell_tool,
            jobs=claim.jobs,
            options=claim.options,
        )
    )


def unreached(result: SuiteResult) -> set[str]:
    """Return the vectors that showed nothing, because the event or the file that they wait for never came."""
    return {vector.id for vector in result.vectors if vector.unreached.startswith(("event", "file"))}


def page_of(claim: Claim, result: SuiteResult, built: Path) -> str:
    """Return the report as a page, with the command that repeats it from the root of the project.

    No folder of this machine is named, that of what is built included.
    """
    command = (
        "ao",
        "conformance",
        "run",
        "--level",
        claim.level,
        *claim.options,
        "--jobs",
        str(claim.jobs),
        "--",
        *result.command,
    )
    page = REPORT_KINDS["markdown"](replace(result, command=command)).replace(f"{built}/", f"{EXAMPLES}/")
    page = page.replace(f"={ROOT}/", '="$PWD"/')
    for folder in (Path(installed("ao")).parent, ROOT):
        page = page.replace(f"{folder}/", "")
    return page


def index_of(results: Mapping[str, SuiteResult], before: str) -> str:
    """Return the page that leads to the others. What was not judged stays as it stood there `before`."""
    lines = [
        "# Conformance of our own executors",
        "",
        "Made by `python -m tests.conformance.pages`; what a page says is what that run found, failures included.",
        "Each page has the command that repeats it in the root of a checkout. C, Go and Rust are built there first,",
        "by the commands that `ao new executor` prints.",
        "",
        "| executor | version | level | verdict | kept | played | date |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in (*(claim.name for claim in CLAIMS), *BUILT):
        stood = [line for line in before.splitlines() if line.startswith(f"| [{name}]")]
        lines += [row_of(name, results[name])] if name in results else stood
    return "\n".join(lines) + "\n"


def row_of(name: str, result: SuiteResult) -> str:
    """Return the line of the index about one executor."""
    kept = result.count(Verdict.PASS) + result.count(Verdict.WARN)
    applicable = len(result.requirements) - result.count(Verdict.NOT_APPLICABLE)
    return (
        f"| [{name}]({name}.md) | {result.version} | {result.level} | {result.verdict} | {kept} of {applicable} "
        f"| {result.executed} vectors | {result.started_at[:10]} |"
    )


def main(arguments: Sequence[str]) -> int:
    """Test, write the pages, and say in JSON what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--foreign", action=argparse.BooleanOptionalAction, help="whose agent is to be installed")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "conformance")
    parser.add_argument("--jobs", type=int)
    asked = parser.parse_args(arguments)
    if asked.foreign is not None:
        asked.names = [claim.name for claim in CLAIMS if (claim.agent is not None) is asked.foreign]
        asked.names += [] if asked.foreign else BUILT
    asked.into.mkdir(parents=True, exist_ok=True)
    index = asked.into / "README.md"
    results, is_whole = {}, True
    with tempfile.TemporaryDirectory() as folder:
        for stated in claims_that_can_be_judged(asked.names, Path(folder)):
            claim = replace(stated, jobs=asked.jobs or stated.jobs)
            result = judge_claim(claim)
            (asked.into / f"{claim.name}.md").write_text(page_of(claim, result, Path(folder)), encoding="utf-8")
            results[claim.name] = result
            before = index.read_text(encoding="utf-8") if index.is_file() else ""
            index.write_text(index_of(results, before), encoding="utf-8")
            print(json.dumps({"name": claim.name, "verdict": result.verdict, "seconds": result.seconds}), flush=True)
            if claim.out_of_reach is not None and (new := unreached(result) - claim.out_of_reach):
                print(f"!! {claim.name}: the moments of {', '.join(sorted(new))} never came", flush=True)
                is_whole = False
    return max((result.exit_code for result in results.values()), default=3) or int(not is_whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
