"""How large the product is, and how much of it one run goes through: the figures of docs/decisions/size.md.

usage: python -m tests.benchmarks.house [--details]

Prints JSON. `code_lines` counts the lines of Python without docstrings, blank lines, imports and comments.
`run` is `ao run` of docs/examples/pr-reviewer with `ao-claude-code-exec`, the real Claude CLI and a simulated model,
whose first answer breaks the contract; the simulated model is not counted. `postgresql_worker` is `ao worker
--until-idle` that performs one run from a PostgreSQL store, with a retry and a question to a person, by
`ao-scripted-exec`. A file is entered when one of its functions is called, and `moves` is how often the next call is in
another file; see tracing.py. With --details the report has the files in the order of their first call, with the number
of calls, and the most frequent moves.
"""

import argparse
import ast
import json
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.benchmarks.code_lines import ROOT, code_lines, modules
from tests.benchmarks.tracing import Call, TracedProcess, TracingEnvironment, files_of, finish, moves_of
from tests.postgres_server import PostgresServer

EXAMPLE: Final = ROOT / "docs" / "examples" / "pr-reviewer"
FIRST_BYTE: Final = "StdinWriter.send"
"""What writes the first byte to the stdin of an executor."""
RECORDS: Final = ("ao_runner.store.records", "Session", "Run")
"""The module and the classes of the store's records of which each construction counts."""
STORE: Final = "runner/ao_runner/store/"
ASKING: Final = {
    "executor": "scripted",
    "input": {"wait_seconds": 300},
    "config": {
        "script": {
            "answers": [
                {"tools": [{"name": "Bash", "input": {"command": "ls"}, "output": "", "ask": True}], "text": "Fine."},
                {"json": {"summary": "Good.", "approval": "approve", "comments": []}},
            ]
        }
    },
}
MOST_MOVES: Final = 25


def places_that_build_records() -> list[str]:
    """Return where a Session or Run of the store is constructed outside of the store, such as a/b.py:12 Run.

    Raises:
        LookupError: The module has no such class any more.
    """
    module, *records = RECORDS
    known = ast.parse((ROOT / "runner" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    if missing := {*records} - {node.name for node in known.body if isinstance(node, ast.ClassDef)}:
        raise LookupError(f"{module} has no class {', '.join(missing)}")
    places = []
    for path in modules():
        name = str(path.relative_to(ROOT))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == module
            for alias in node.names
            if alias.name in records
        }
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = [one for one in called if isinstance(one, ast.Name) and one.id in imported]
        built = sorted((one.lineno, imported[one.id]) for one in names)
        if not name.startswith(STORE):
            places += [f"{name}:{line} {record}" for line, record in built]
    return places


def traced_run(folder: Path) -> tuple[TracedProcess, TracedProcess, TracedProcess]:
    """Return what the runner, the executor, and the executor that was asked for its description called."""
    tracing = TracingEnvironment(folder)
    prompt, script = (EXAMPLE / "prompt.md").read_text(), str(EXAMPLE / "model-script.json")
    asked = ("-p", prompt, "--executor", "claude-code", "--model-script", script)
    tracing.run("ao", "run", str(EXAMPLE / "blueprint.json"), *asked, at=folder, environment=environment(folder))
    executor = "ao-claude-code-exec"
    return tracing.take("ao", "run"), tracing.take(executor, count=1), tracing.take(executor, "describe")


def traced_worker(folder: Path, store: str) -> TracedProcess:
    """Return what a worker called that performed a run from the store; it asked a person and was asked again."""
    tracing = TracingEnvironment(folder)
    known = {**environment(folder), "AO_STORE": store}
    (folder / "home" / "profiles").mkdir(parents=True)
    (folder / "home" / "profiles" / "asking.json").write_text(json.dumps(ASKING))
    asked = (str(EXAMPLE / "blueprint.json"), "-p", "Review it.", "--profile", "asking")
    run_id = tracing.run("ao", "submit", *asked, at=folder, environment=known).strip()
    worker = tracing.start("ao", "worker", "--until-idle", "--profile", "asking", at=folder, environment=known)
    until = time.monotonic() + 60
    while not json.loads(tracing.run("ao", "inputs", "--json", at=folder, environment=known)):
        if time.monotonic() > until or worker.poll() is not None:
            worker.kill()
            raise RuntimeError(f"the run did not ask: {finish(worker)}")
    tracing.run("ao", "answer", run_id, "--allow", at=folder, environment=known)
    finish(worker)
    return tracing.take("ao", "worker")


def environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "LANG": "C.UTF-8", "AO_HOME": str(folder / "home"), "AO_STORE": "local"}


def of_the_product(calls: Sequence[Call]) -> list[Call]:
    return [call for call in calls if "/ao_model_simulator/" not in call.file]


def details_of(calls: Sequence[Call], before: int = 0) -> dict[str, object]:
    """Return each file with the number of its calls, before the first byte and afterwards, and the moves."""
    counted = {}
    for when, part in (("before the first byte", calls[:before]), ("afterwards", calls[before:])):
        numbers = Counter(call.file for call in part)
        counted[when] = {file: numbers[file] for file in files_of(part)}
    moves = {f"{one} -> {other}": number for (one, other), number in moves_of(calls).most_common(MOST_MOVES)}
    return {"files": counted, "moves": moves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true")
    wants_details = parser.parse_args().details
    with tempfile.TemporaryDirectory(prefix="ao-house-") as name, PostgresServer() as server:
        for part in ("run", "worker"):
            (Path(name) / part).mkdir()
        runner, executor, described = traced_run(Path(name) / "run")
        worker = traced_worker(Path(name) / "worker", server.new_database())
    of_runner, of_executor, of_worker = (of_the_product(one.calls) for one in (runner, executor, worker))
    first = of_the_product(runner.before(FIRST_BYTE))
    first_of_worker = of_the_product(worker.before(FIRST_BYTE))
    lines, places = code_lines(), places_that_build_records()
    report: dict[str, object] = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.platform(terse=True)}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "code_lines": {"sum": lines.total(), **dict(sorted(lines.items()))},
        "run": {
            "files of runner and executor": len({*files_of(of_runner), *files_of(of_executor)}),
            "files of the runner": len(files_of(of_runner)),
            "files of the executor": len(files_of(of_executor)),
            "files before the first byte, with those of describe": len({*files_of(first), *files_of(described.calls)}),
            "files of the runner before the first byte": len(files_of(first)),
            "moves of the runner": moves_of(of_runner).total(),
            "moves of the runner before the first byte": moves_of(first).total(),
            "moves of the executor": moves_of(of_executor).total(),
        },
        "places that build a Session or a Run": len(places),
        "postgresql_worker": {
            "files": len(files_of(of_worker)),
            "files before the first byte": len(files_of(first_of_worker)),
            "moves": moves_of(of_worker).total(),
        },
    }
    if wants_details:
        report["details"] = {
            "places": places,
            "runner": details_of(of_runner, len(first)),
            "executor": details_of(of_executor),
            "describe": details_of(described.calls),
            "postgresql_worker": details_of(of_worker, len(first_of_worker)),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
