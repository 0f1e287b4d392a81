"""One step of CI: an agent runs on the diff of a pull request, and the step is red unless its result may count.

usage: python -I -m ao_runner.cli.pull_request

`.github/actions/run` starts it in the folder of the clone, without which Python would import modules of the change. The
inputs of that action are in the variables `AO_STEP_…`, never in the text of a shell. What the agent and the change say
reaches the code host escaped: in the log, in the summary, in annotations and in outputs.
"""

import json
import os
import re
import secrets
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from ao_protocol.json_words import shown
from ao_runner.cli import main as ao
from ao_runner.cli.gating import EXIT_REFUSED
from ao_runner.cli.printing import echo, plain_text
from ao_runner.errors import RunnerError
from ao_runner.processes.git import Git
from ao_runner.runs.expressions import Expression, NoExpression, NotEvaluated

_MINOR: Final = ("info", "low", "minor", "nit", "nitpick", "note", "notice", "p3", "suggestion")
LEVELS: Final = dict.fromkeys(("blocker", "critical", "error", "high", "p1"), "error") | dict.fromkeys(_MINOR, "notice")
"""The level of an annotation by the severity of a comment in lower case; that of any other is `warning`."""
GIT_SECONDS: Final = 120.0
MAX_OUTPUT_CHARACTERS: Final = 100_000
"""The most of an answer, which is ASCII, in an output or a summary. Linux takes 128 KiB in a variable."""
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&@:$])")
_PLACE: Final = re.compile(r"(.+?):(\d+)(?::.*)?")


class StepRefused(RunnerError):
    """The step cannot do what its inputs ask for; the message says why, and what to write."""


def main() -> None:
    """Perform the step, and exit with the code of `ao run`, or with 2 or 3 for what the step itself finds."""
    os.dup2(1, 2)  # one stream: else the code host could read a line of the agent behind the end of `_run`
    folder = Path(tempfile.mkdtemp(prefix="ao-step-", dir=os.environ.get("RUNNER_TEMP")))
    os.environ.setdefault("AO_HOME", str(folder / "home"))
    code, verdict, comments, own_reasons = RunnerError.exit_code, dict[str, Any](), list[dict[str, Any]](), list[str]()
    try:
        wanted, file = Expression.parse(_given("comments")), folder / "verdict.json"
        code = _run(["run", _given("agent"), "-p", _prompt(folder), *_options(), "--verdict", str(file)])
        verdict = json.loads(file.read_text(encoding="utf-8") or "{}") if file.exists() else {}
        if (event := verdict.get("event") or {}).get("event_type") == "result":
            comments = _comments(wanted, event)
        elif code == 0:
            raise StepRefused("there is no result; take --help and the like out of input options")
    except (RunnerError, NoExpression) as error:
        code, own_reasons = code or EXIT_REFUSED, [str(error)]
    _tell(code, verdict, own_reasons, comments, folder / "answer.json")
    sys.exit(code)


def _given(name: str) -> str:
    return os.environ.get(f"AO_STEP_{name}".upper(), "").strip()


def _options() -> list[str]:
    try:
        options = shlex.split(_given("options"))
    except ValueError as error:
        raise StepRefused(f"input options: {error}") from error
    given = {name: _given(name.replace("-", "_")).splitlines() for name in ("executor", "fail-on", "fail-if")}
    return [*options, *(f"--{name}={line}" for name, lines in given.items() for line in lines if line.strip())]


def _prompt(folder: Path) -> str:
    """Return the prompt with the diff.

    The diff is made apart from the work tree: `.gitattributes` of a change could say that its files are binary.
    """
    here, base, head = Path.cwd(), _given("base"), _given("head")
    if not base:
        raise StepRefused("input base: it is empty; in a workflow that is not for pull_request, give the commit before")
    git = Git.within(GIT_SECONDS, os.environ, str(here))
    if missing := [commit for commit in (base, head) if commit and not git.commit_of(commit, here)]:
        raise StepRefused(f"the clone has no commit {missing[0]}; give actions/checkout the input fetch-depth: 0")
    if head and git.start(["git", "merge-base", "--is-ancestor", head, "HEAD"], here).exit_code:
        raise StepRefused(f"HEAD does not contain {head}, the head of the pull request; check it out before this step")
    (folder / "empty").mkdir()
    git_dir = Path(git.run("rev-parse", "--absolute-git-dir", at=here))
    apart = git.with_variables(GIT_DIR=git_dir, GIT_WORK_TREE=folder / "empty", GIT_INDEX_FILE=folder / "no-index")
    arguments = ("--no-color", "--no-ext-diff", "--no-textconv", f"{base}...{head or 'HEAD'}")
    diff = apart.run("diff", *arguments, at=folder / "empty").encode(errors="surrogateescape").decode(errors="replace")
    if not diff:
        raise StepRefused(f"there is no change between {base} and {head or 'HEAD'}; check it out before this step")
    fence = "`" * (max(map(len, re.findall("`+", diff)), default=2) + 3)
    return f"{_given('prompt')}\n\n{fence}diff\n{diff}\n{fence}\n"


def _run(arguments: list[str]) -> int:
    """Perform `ao` in this process, and return its exit code. No line that it prints is a command to the code host."""
    token, sys.argv = secrets.token_hex(16), ["ao", *arguments]
    echo(f"::stop-commands::{token}")
    try:
        ao()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    finally:
        echo(f"\n::{token}::")
    return 1


def _comments(wanted: Expression, event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the comments in an answer."""
    if "output" not in event:
        raise StepRefused("no schema checked the answer; give the agent an output_schema, or options --output-schema")
    if event["output"].get("ambiguous"):
        raise StepRefused("the answer has several values that fit and differ; see `ambiguous` in docs/contracts.md")
    try:
        found = wanted.evaluate(event["result_data"])
    except NotEvaluated as error:
        raise StepRefused(f"input comments: {error}") from error
    for one in found if isinstance(found, list) else [] if found is None else [found]:
        types = {"path": str | None, "line": int | None, "severity": str | None, "body": str}
        if not isinstance(one, dict) or any(not isinstance(one.get(name), kind) for name, kind in types.items()):
            raise StepRefused(f"input comments: expected objects with path, line, severity, body; found {shown(one)}")
    return found or []


def _tell(code: int, verdict: dict[str, Any], own: list[str], comments: list[dict[str, Any]], file: Path) -> None:
    """Write annotations into the log, and summary, outputs and the file with the answer."""
    event = verdict.get("event") or {}
    told = [f"{one['kind']}: {one['message']}" for one in verdict.get("reasons", ())] + own
    told += [f"{error['type']}: {error['message']}"] if (error := event.get("error")) else []
    told += [] if told or not code else ["nothing was run; the log says why"]
    name = {0: "passed", EXIT_REFUSED: "refused"}.get(code, "failed")
    lines = [
        f"### {_markdown(_given('agent'))}: {name}, exit code {code}",
        "",
        *(f"- {_markdown(one)}" for one in told),
    ]
    for reason in told:
        _annotate("error", reason, title=f"ao run: {name}")
    for one in comments:
        severity, path, line = one.get("severity") or "comment", one.get("path"), one.get("line")
        if line is None and path is not None and (found := _PLACE.fullmatch(path)):
            path, line = found.groups()
        place = ":".join(str(part) for part in (path, line) if part is not None)
        lines.append(f"- **{_markdown(severity)}** {_markdown(place)} {_markdown(one['body'])}")
        _annotate(LEVELS.get(severity.lower(), "warning"), one["body"], file=path, line=line, title=severity)
    answer = json.dumps(event.get("result_data"), indent=2)
    file.write_text(answer, encoding="utf-8")
    if len(answer) <= MAX_OUTPUT_CHARACTERS:
        lines += ["", "<details><summary>Answer</summary>", "", *(f"    {row}" for row in answer.split("\n"))]
        lines += ["", "</details>"]
    _append("GITHUB_STEP_SUMMARY", "\n".join([*lines, "", ""]))
    outputs = {"verdict": name, "exit-code": code, "reasons": json.dumps(told), "answer-file": file}
    outputs |= {"answer": answer if len(answer) <= MAX_OUTPUT_CHARACTERS else ""}
    for key, value in (outputs | {f"{one}-id": verdict.get(f"{one}_id", "") for one in ("run", "session")}).items():
        mark = f"ao_{secrets.token_hex(16)}"
        _append("GITHUB_OUTPUT", f"{key}<<{mark}\n{value}\n{mark}\n")


def _append(variable: str, text: str) -> None:
    if path := os.environ.get(variable):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)


def _annotate(level: str, text: str, **properties: object) -> None:
    given = ",".join(f"{name}={_escaped(str(one), ':,')}" for name, one in properties.items() if one is not None)
    echo(f"::{level} {given}::{_escaped(text)}")


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(one):02X}" if one in f"%\r\n{more}" else one for one in text)


def _markdown(text: str) -> str:
    """Return a text as one line of Markdown that shows it: no links, no HTML, no pictures."""
    return _MARKDOWN.sub(r"\\\1", " ".join(plain_text(text).split()))


if __name__ == "__main__":
    main()
