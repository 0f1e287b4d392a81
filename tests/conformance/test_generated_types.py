"""What people generate from the published schemas: types for TypeScript, Python, Go and others, and validators."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from ao_protocol import published
from ao_protocol.published import load_vectors, schema_names, validator_for

ROOT: Final = Path(__file__).parents[2]
SCHEMAS: Final = Path(published.__file__).parent / "schemas" / published.CURRENT_SCHEMAS
BUNDLE: Final = SCHEMAS / "protocol.schema.json"
TYPES: Final = Path(__file__).parent / "types"
EXAMPLE: Final = ROOT / "docs" / "examples" / "typescript" / "ao-typescript-exec.ts"
REFERRING: Final = ["event", "invocation", "protocol"]
"""Schemas that refer to another file, and the one that has all documents."""
REQUIRED: Final = "AO_TEST_REQUIRES_GENERATORS"
"""The variable with the programs that must be there, separated by blanks."""
BY_NPM: Final = ".ci/run installs it for its own run if npm is there"
OBTAINED: Final = {
    **dict.fromkeys(["node", "go"], ".ci/toolchains installs it on Debian, as root"),
    **dict.fromkeys(["datamodel-codegen", "openapi-python-client"], ".ci/run installs it for its own run"),
    "go-jsonschema": "it is a Go module, and .ci/run installs none",
}
"""Where a program comes from; one that is not named here comes by `BY_NPM`."""
SECONDS: Final = 100

pytestmark = pytest.mark.thorough


def program(name: str) -> str:
    """Return the path of a program. Where it is missing, skip the test that is running, or fail if it is required."""
    found = shutil.which(name)
    if found is None and name in os.environ.get(REQUIRED, "").split():
        pytest.fail(f"{REQUIRED} names {name}, and it is not on PATH")
    if found is None:
        pytest.skip(f"{name} is not on PATH, so what needs it is not tested; {OBTAINED.get(name, BY_NPM)}")
    return found


def run(argv: Sequence[str | Path], folder: Path = ROOT, stdin: str = "", **variables: str) -> str:
    """Return what a program writes on stdout; fail with all that it says if it ends badly."""
    ended = subprocess.run(
        [str(argument) for argument in argv],
        cwd=folder,
        input=stdin,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def packages() -> Path:
    """Return the folder of npm's packages that json2ts is installed in."""
    return next(folder for folder in Path(program("json2ts")).resolve().parents if folder.name == "node_modules")


def documents() -> list[tuple[str, Mapping[str, Any]]]:
    """Return the documents of the vectors, valid and invalid ones, each with the name of the schema that judges it."""
    names = {"event": "event", "invocation": "invocation", "description": "description", "control_line": "control-line"}
    judged = [(names[kind], vector["document"]) for kind in names for vector in load_vectors(kind)]
    return judged + [("event", event) for vector in load_vectors("conversation") for event in vector["events"]]


def is_exact(document: object) -> bool:
    """Tell whether JavaScript, whose numbers are all floats, reads every number of a document as it is."""
    if isinstance(document, dict | list):
        return all(map(is_exact, document.values() if isinstance(document, dict) else document))
    return not isinstance(document, int) or abs(document) < 2**53


def test_the_schemas_are_those_of_the_models() -> None:
    run([sys.executable, ROOT / ".ci" / "schemas", "--check"])


def test_ajv_compiles_every_schema_in_strict_mode_and_agrees_on_every_document_of_the_vectors() -> None:
    asked = [(name, document) for name, document in documents() if is_exact(document)]
    stdin = json.dumps([(f"{name}.schema.json", document) for name, document in asked])

    told = run([program("node"), TYPES / "verdicts.cjs", SCHEMAS], stdin=stdin, NODE_PATH=str(packages()))

    ours = {name: validator_for(name) for name in schema_names()}
    differs = [
        one for one, verdict in zip(asked, json.loads(told), strict=True) if ours[one[0]].is_valid(one[1]) != verdict
    ]
    assert differs == []


def test_jsonschema_agrees_on_every_document_of_the_vectors() -> None:
    schemas = [json.loads(file.read_text(encoding="utf-8")) for file in SCHEMAS.glob("*.schema.json")]
    registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)
    judges = {schema["$id"]: Draft202012Validator(schema, registry=registry) for schema in schemas}

    ours = {name: validator_for(name) for name in schema_names()}
    differs = [
        (name, document)
        for name, document in documents()
        if ours[name].is_valid(document) != judges[f"{name}.schema.json"].is_valid(document)
    ]
    assert [document["schema_version"] for _, document in differs] == ["3.0\n"]  # Python's $ is also before a newline


@pytest.mark.parametrize("name", REFERRING)
def test_json_schema_to_typescript_follows_the_references(name: str) -> None:
    types = run([program("json2ts"), f"{name}.schema.json"], SCHEMAS)

    assert {
        "event": "export type Event = StandardEvent | VendorEvent;",
        "invocation": "export interface Blueprint {",
        "protocol": "export type Protocol = Event | Invocation",
    }[name] in types


def compile_typescript(source: Path, folder: Path) -> Path:
    """Generate the types, check a program with them, and return it as JavaScript."""
    types = run([program("json2ts"), "--no-additionalProperties", BUNDLE])
    (folder / "protocol.ts").write_text(types, encoding="utf-8")
    shutil.copy(source, folder)
    checks = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"]
    output = ["--target", "es2022", "--module", "nodenext"]
    roots = ["--types", "node", "--typeRoots", str(packages() / "@types")]
    run([program("tsc"), *checks, *output, *roots, source.name], folder)
    return folder / f"{source.stem}.js"


def test_the_types_for_typescript_tell_the_events_apart(tmp_path: Path) -> None:
    assert compile_typescript(TYPES / "receiver.ts", tmp_path).exists()


def test_the_example_in_typescript_fits_the_types_and_passes_core(tmp_path: Path) -> None:
    executor = compile_typescript(EXAMPLE, tmp_path)
    ao = Path(sys.executable).with_name("ao")

    told = run([ao, "conformance", "run", "--level", "core", "--", program("node"), executor])

    assert "typescript 0.1.0 passes core" in told


@pytest.mark.parametrize("name", REFERRING)
def test_quicktype_makes_types_of_a_file(name: str) -> None:
    types = run([program("quicktype"), "--src-lang", "schema", "--lang", "kotlin", f"{name}.schema.json"], SCHEMAS)

    assert "class Attachment" in types or name == "event"


def test_quicktype_makes_a_type_of_each_definition_of_the_bundle() -> None:
    source = f"{BUNDLE}#/$defs/"

    types = run([program("quicktype"), "--src-lang", "schema", "--lang", "typescript", "--just-types", source])

    wanted = {"RunStarted", "ToolFinished", "Result", "Invocation", "Blueprint", "Description", "Turn", "TextBlock"}
    assert wanted - set(re.findall(r"^export interface (\w+)", types, re.MULTILINE)) == set()


def test_models_of_datamodel_codegen_tell_the_events_apart_and_have_all_fields(tmp_path: Path) -> None:
    options = ["--input-file-type", "jsonschema", "--output-model-type", "pydantic_v2.BaseModel"]
    run([program("datamodel-codegen"), "--input", BUNDLE, *options, "--output", tmp_path / "generated_protocol.py"])
    spec = importlib.util.spec_from_file_location("generated_protocol", tmp_path / "generated_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    models: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = models  # where pydantic looks for the names of annotations
    spec.loader.exec_module(models)

    for event in [event for vector in load_vectors("conversation") for event in vector["events"]]:
        read = models.Event.model_validate(event).root
        kind = event["event_type"]
        wanted = "VendorEvent" if kind.startswith("_") else kind.title().replace("_", "")
        assert type(getattr(read, "root", read)).__name__ == wanted
        assert event.keys() <= read.model_dump(by_alias=True).keys()


def test_the_types_of_go_jsonschema_compile(tmp_path: Path) -> None:
    run([program("go-jsonschema"), "--only-models", "--package", "wire", "--output", tmp_path / "wire.go", BUNDLE])
    source = (tmp_path / "wire.go").read_text(encoding="utf-8")

    assert "\ntype ToolFinished struct {" in source
    (tmp_path / "go.mod").write_text("module wire\n\ngo 1.18\n", encoding="utf-8")
    run([program("go"), "vet", "."], tmp_path)
