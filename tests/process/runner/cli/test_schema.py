"""`ao schema`, as a person or a script calls it."""

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao

DOCS = Path(__file__).parents[4] / "docs"
REVIEW = {"type": "object", "required": ["summary"], "properties": {"summary": {"type": "string"}}}
WIDER = {"type": "object", "properties": {"summary": {"type": ["string", "null"]}}}
MODELS = "print('importing')\nfrom pydantic import BaseModel\nclass Review(BaseModel):\n    summary: str\n"
COMMANDS = ["add", "list", "show", "delete", "check", "from-model"]


@pytest.fixture
def schemas(ao: Ao) -> Ao:
    """Return an `ao` with the files review.json, wider.json and bad.json, and the named schema `review`."""
    ao.write("review.json", json.dumps(REVIEW))
    ao.write("wider.json", json.dumps(WIDER))
    ao.write("bad.json", '{"type": "objekt", "properties": {"a": {"minLength": -1}}}')
    assert ao("schema", "add", "review", "review.json", "--description", "A review").exit_code == 0
    return ao


def test_a_schema_is_added_listed_and_shown(ao: Ao) -> None:
    ao.write("review.json", json.dumps(REVIEW))

    added = ao("schema", "add", "review", "review.json", "--description", "What a reviewer answers")
    header, row = ao("schema", "list").stdout.splitlines()

    assert (added.exit_code, added.stdout) == (0, "✓ review added\n")
    assert "ao run BLUEPRINT --output-schema-name review" in added.stderr
    assert header.split() == ["NAME", "RUNS", "ADDED", "DESCRIPTION"]
    assert row.split()[:2] == ["review", "0"]
    assert row.endswith("What a reviewer answers")
    assert ao("schema", "show", "review").document == REVIEW


def test_scripts_get_json(ao: Ao) -> None:
    ao.write("review.json", json.dumps(REVIEW))

    added = ao("schema", "add", "review", "review.json", "--json").document
    (listed,) = ao("schema", "list", "--json").document
    shown = ao("schema", "show", "review", "--json").document

    assert shown == {
        "name": "review",
        "description": "",
        "created_at": shown["created_at"],
        "used_by_runs": 0,
        "schema": REVIEW,
    }
    assert added == {**listed, "outcome": "added"}
    assert listed == {name: value for name, value in shown.items() if name != "schema"}


def test_what_stands_in_a_schema_does_not_steer_the_terminal(ao: Ao) -> None:
    schema = {"title": "\x1b[31m \x9b31m \x7f", "enum": ["[bold]"]}
    ao.write("odd.json", json.dumps(schema))

    ao("schema", "add", "odd", "odd.json", "--description", "\x1b[31m red")

    assert ao("schema", "show", "odd").document == schema
    for command in (["show", "odd"], ["list"]):
        called = ao("schema", *command)
        assert called.stdout.replace("\n", "").isprintable(), command


def test_without_schemas_it_says_how_to_add_one(ao: Ao) -> None:
    called = ao("schema", "list")

    assert (called.exit_code, called.stdout) == (0, "")
    assert "ao schema add NAME FILE" in called.stderr
    assert ao("schema", "list", "--json").document == []


@pytest.mark.parametrize(
    "text",
    ['{\n\t"type": "object"\n}', "type: object\n", "{type: object}", "\ufeff{}"],
    ids=["JSON with tabs", "YAML", "YAML in braces", "JSON with a byte order mark"],
)
def test_a_schema_can_be_piped_in(text: str, ao: Ao) -> None:
    assert ao("schema", "add", "piped", "-", stdin=text).exit_code == 0
    assert ao("schema", "show", "piped").document in ({"type": "object"}, {})


def test_a_schema_can_be_piped_in_through_a_socket(ao: Ao) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b'{"type": "object"}')
        ours.shutdown(socket.SHUT_WR)
        done = subprocess.run(
            ao.argv("schema", "check", "-"),
            cwd=ao.folder,
            env=ao.environment(),
            stdin=theirs.fileno(),
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )

    assert done.returncode == 0, done.stderr


def test_what_no_run_used_can_be_deleted_and_added_anew(schemas: Ao) -> None:
    assert schemas("schema", "delete", "review").stdout == "✓ review deleted\n"
    assert schemas("schema", "add", "review", "wider.json").stdout == "✓ review added\n"


REFUSED = {
    "no such schema": (["show", "reveiw"], "there is no schema 'reveiw'; did you mean 'review'? `ao schema list`"),
    "nothing of that name": (["check", "reveiw"], "'reveiw' is not a file, and there is no schema 'reveiw'; did you"),
    "a name too long for a file": (["check", "a" * 300], "is not a file"),
    "no such file": (["add", "a", "nowhere.json"], "nowhere.json: No such file or directory"),
    "a name that stands for another": (["add", "review", "wider.json"], "`ao schema delete review` makes room"),
    "a bad name": (["add", "a/b", "review.json"], "'a/b' cannot be the name of a schema"),
    "a bad schema": (["add", "a", "bad.json"], "schema 'a' cannot be used as an output schema:\n  $."),
    "no model": (["from-model", "nowhere:Review"], "nowhere:Review: no module 'nowhere' in "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_was_found_and_what_to_do(name: str, schemas: Ao) -> None:
    arguments, words = REFUSED[name]

    called = schemas("schema", *arguments)

    assert (called.exit_code, called.stdout) == (2, "")
    assert words in called.stderr
    assert "Traceback" not in called.stderr


def test_a_schema_is_checked_by_file_and_by_name(schemas: Ao) -> None:
    good, named, bad = (schemas("schema", "check", what) for what in ("review.json", "review", "./bad.json"))

    assert (good.exit_code, good.stdout) == (0, "✓ review.json: usable as an output schema\n")
    assert (named.exit_code, named.stdout) == (0, "✓ review: usable as an output schema\n")
    assert (bad.exit_code, bad.stdout) == (1, "")
    assert '✗ ./bad.json: $.type: "objekt"' in bad.stderr
    assert "✗ ./bad.json: $.properties.a.minLength: -1" in bad.stderr


def test_a_check_is_told_to_scripts(schemas: Ao) -> None:
    bad = schemas("schema", "check", "bad.json", "--json")
    odd = schemas("schema", "check", "-", "--json", stdin='{"requred": []}')

    assert bad.exit_code == 1
    assert bad.document["ok"] is False
    assert bad.document["problems"][0].startswith("$.")
    assert odd.document == {
        "ok": True,
        "problems": [],
        "remarks": ["$.requred: unknown keyword, ignored; did you mean 'required'?"],
    }


def test_a_name_goes_before_a_file_and_says_so(schemas: Ao) -> None:
    schemas.write("review", json.dumps(WIDER))

    by_name = schemas("schema", "check", "review")
    by_path = schemas("schema", "check", "./review")

    assert (by_name.exit_code, by_path.exit_code) == (0, 0)
    assert "! using the schema with this name; for the file write ./review" in by_name.stderr
    assert by_path.stderr == ""


def test_a_file_is_checked_where_there_can_be_no_store(ao: Ao) -> None:
    ao.write("review.json", json.dumps(REVIEW))

    assert ao("schema", "check", "review.json", AO_HOME="/dev/null/home").exit_code == 0


def test_a_model_becomes_a_schema_that_can_be_added(schemas: Ao) -> None:
    schemas.write("models.py", MODELS)
    before = sorted(schemas.folder.iterdir())

    called = schemas("schema", "from-model", "models:Review")
    added = schemas("schema", "add", "from-model", "-", stdin=called.stdout)

    assert called.document == {**REVIEW, "title": "Review"}
    assert called.stderr == "importing\n"
    assert added.exit_code == 0
    assert sorted(schemas.folder.iterdir()) == before


@pytest.mark.parametrize(("command", "expected"), [("show", "plain,review"), ("check", "plain,review\nfile,rev")])
def test_names_can_be_completed(command: str, expected: str, schemas: Ao) -> None:
    completed = schemas(_AO_COMPLETE="bash_complete", COMP_WORDS=f"ao schema {command} rev", COMP_CWORD="3")

    assert completed.stdout.startswith(expected)


def test_every_command_on_the_page_works(ao: Ao) -> None:
    page = (DOCS / "named-schemas.md").read_text(encoding="utf-8")
    shutil.copytree(DOCS / "examples" / "release-notes", ao.folder, dirs_exist_ok=True)
    (models,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    ao.write("models.py", models)
    blocks = "".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL))
    lines = [line for line in blocks.splitlines() if not line.startswith("pip install ")]
    ao.write("page.sh", "\n".join(["set -eo pipefail", f'ao() {{ "{sys.executable}" -m ao_runner "$@"; }}', *lines]))

    done = subprocess.run(
        ["bash", "page.sh"],  # noqa: S607
        cwd=ao.folder,
        env=ao.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * SECONDS,
    )

    assert done.returncode == 0, done.stderr
    assert "✓ release-note-2 added" in done.stdout


def test_the_page_names_every_command_and_option(ao: Ao) -> None:
    page = (DOCS / "named-schemas.md").read_text(encoding="utf-8")

    for command in COMMANDS:
        shown = ao("schema", command, "--help").stdout.partition("Options:")[2].partition("Examples:")[0]
        assert f"`ao schema {command} " in page or f"`ao schema {command}`" in page
        for option in set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}:
            assert option in page, f"{command} {option}"


def test_completion_makes_no_store(ao: Ao) -> None:
    ao(_AO_COMPLETE="bash_complete", COMP_WORDS="ao schema show rev", COMP_CWORD="3")

    assert not (ao.folder / "ao-home").exists()
