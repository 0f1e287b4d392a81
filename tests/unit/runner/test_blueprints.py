"""Files that people write, and what they are told about them."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.framing import NotIJson, decode_object, encode_line
from ao_protocol.written import NotInteroperable, parse_json
from ao_runner.blueprints.loading import (
    MAX_FILE_BYTES,
    InvalidBlueprint,
    UnreadableFile,
    load_blueprint,
    load_object,
    oddities,
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_and_json_mean_the_same(tmp_path: Path) -> None:
    as_json = written(tmp_path, "a.json", '{"name": "a", "system_prompt": "one\\ntwo\\n"}')
    as_yaml = written(tmp_path, "a.yaml", "name: a\nsystem_prompt: |\n  one\n  two\n")

    assert load_blueprint(as_json).document == load_blueprint(as_yaml).document


def test_yaml_knows_the_types_of_json_only(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "day: 2026-01-01\nlist: &x [1, 2.5, true, null]\nagain: *x\n")

    assert load_object(path) == {"day": "2026-01-01", "list": [1, 2.5, True, None], "again": [1, 2.5, True, None]}


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        *[(text, text) for text in ("yes", "on", "n", "1:30:00", "2026-01-01", "1_000", "0b1", "'1'", "=", "1e", "+.")],
        *[("~", None), ("", None), ("True", True), ("false", False), ("0777", 777), ("0o17", 15), ("0xff", 255)],
        *[("+1", 1), ("-0", 0), ("1e3", 1000.0), (".5", 0.5), ("1.", 1.0), ("!!str 1", "1"), ("!!float 1", 1.0)],
        ("1:" * 100_000 + "1", "1:" * 100_000 + "1"),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(scalar: str, value: object, tmp_path: Path) -> None:
    read = load_object(written(tmp_path, "a.yaml", f"a: {scalar}\n"))["a"]

    assert (read, type(read)) == (value.strip("'") if isinstance(value, str) else value, type(value))


def test_fields_that_are_unknown_here_are_kept(tmp_path: Path) -> None:
    loaded = load_blueprint(written(tmp_path, "a.json", '{"name": "a", "vendor": 1, "output_shema": {}}'))

    assert loaded.document["vendor"] == 1
    assert oddities(loaded) == [
        "$.vendor: unknown field, ignored",
        "$.output_shema: unknown field, ignored; did you mean 'output_schema'?",
    ]


UNREADABLE = {
    "no such file": ("missing.json", None, "No such file or directory"),
    "broken JSON": ("a.json", '{"name": }', "line 1, column 10: Expecting value"),
    "NaN": ("a.json", '{"name": NaN}', "NaN is not JSON"),
    "a list": ("a.json", "[1]", "expected an object, found a list"),
    "nothing": ("a.yaml", "", "expected an object, found nothing"),
    "broken YAML": ("a.yaml", "a: [1,\nb: 2", "line 3, column 1: did not find expected"),
    "a key twice": ("a.yaml", "a: 1\na: 2\n", 'line 2, column 1: duplicate key "a"'),
    "a key that is no text": ("a.yaml", "1: 1\n", "line 1, column 1: key 1 is not a string; quote it"),
    "python in YAML": ("a.yaml", "a: !!python/object/apply:os.getcwd []\n", "is not known here; leave it out"),
    "infinity in YAML": ("a.yaml", "a: .inf\n", "line 1, column 4: .inf is not a JSON number"),
    "a date in YAML": ("a.yaml", "a: !!timestamp 2026-01-01\n", "is not known here; JSON has no such type"),
    "bytes in YAML": ("a.yaml", "a: !!binary aGk=\n", "is not known here; JSON has no such type"),
    "a boolean that is none": ("a.yaml", "a: !!bool maybe\n", 'line 1, column 4: "maybe" is no bool, as its tag says'),
    "a set": ("a.yaml", "a: !!set {b}\n", "is not known here; leave it out"),
    "a merge": ("a.yaml", "a: &a {b: 1}\nc: {<<: *a}\n", "line 2, column 5: '<<' is no merge in YAML 1.2"),
    "an alias of nothing": ("a.yaml", "a: *b\n", "alias *b has no value before it"),
    "two documents": ("a.yaml", "a: 1\n---\nb: 1\n", "line 2, column 1: a second document begins"),
    "much too deep in YAML": ("a.yaml", "a: " + "[" * 100_000, "is nested deeper than 62 levels"),
    "dashes too deep": ("a.yaml", "a:\n" + "- " * 100_000, "is nested deeper than 62 levels"),
    "aliases too deep": (
        "a.yaml",
        "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40,
        "nested deeper",
    ),
    "a key twice in JSON": ("a.json", '{"a": [{"b": 1, "c": 2, "b": 3}]}', '$.a[0]: duplicate key "b"'),
    "a key twice, in vain": ("a.json", '{"a": {"b": 1, "b": 2}, "a": 3}', 'duplicate key "b"'),
    "an integer that loses digits": ("a.json", '{"a": {"n": 9007199254740993}}', "$.a.n: 9007199254740993 is outside"),
    "the same in YAML": ("a.yaml", "a:\n  n: 9007199254740993\n", "$.a.n: 9007199254740993 is outside"),
    "an endless integer": ("a.json", '{"a": ' + "9" * 5000 + "}", "outside ±9007199254740991"),
    "the same in YAML, endless": ("a.yaml", "a: " + "9" * 5000, "a.yaml"),
    "a number that overflows": ("a.json", '{"a": -1e999}', "the number -1e999 is too large"),
    "half a character": ("a.json", '{"a": "\\ud83d"}', "half a surrogate pair"),
    "too deep": ("a.json", '{"a": ' + "[" * 62 + "]" * 62 + "}", "is nested deeper than 62 levels"),
    "much too deep": ("a.json", '{"a": ' + "[" * 100_000, "nested deeper than 62 levels"),
    "the same in YAML, too deep": ("a.yaml", "a: " + "[" * 62 + "]" * 62, "is nested deeper than 62 levels"),
    "an alias of itself": ("a.yaml", "a: &x [*x]\n", "recursive node"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_told_with_its_place(name: str, tmp_path: Path) -> None:
    file_name, text, words = UNREADABLE[name]
    path = tmp_path / file_name if text is None else written(tmp_path, file_name, text)

    with pytest.raises(UnreadableFile) as caught:
        load_object(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_what_is_read_at_its_deepest_still_fits_into_a_line(tmp_path: Path) -> None:
    document = load_object(written(tmp_path, "a.json", '{"a": ' + "[" * 61 + "]" * 61 + "}"))
    prepare = {"type": "prepare", "invocation": {"agent_blueprint": document}}

    assert decode_object(encode_line(prepare)) == prepare


@given(
    written_value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda members: st.lists(members) | st.dictionaries(st.text(), members),
    )
)
def test_a_value_that_is_read_is_one_that_a_line_can_hold(written_value: object) -> None:
    text = json.dumps(written_value)
    try:
        value = parse_json(text)
    except NotInteroperable:
        with pytest.raises(NotIJson):
            decode_object(b'{"parameters": ' + text.encode() + b"}")
    else:
        assert decode_object(encode_line({"parameters": value})) == {"parameters": value}


def test_every_wrong_field_is_named_with_what_was_found(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "name: ''\ntype: robot\nsystem_prompt: 7\n")

    with pytest.raises(InvalidBlueprint) as caught:
        load_blueprint(path)

    first, *problems = str(caught.value).splitlines()
    assert first == f"{path} is not a valid blueprint:"
    assert [problem.split(":")[0].strip() for problem in problems] == ["$.name", "$.type", "$.system_prompt"]
    assert '"robot"' in problems[1]


@pytest.mark.parametrize("value", ["[x, x, x, x, x, x, x, x, x, x]", "y" * 1000], ids=["lists", "texts"])
def test_a_few_lines_of_aliases_that_mean_gigabytes_are_refused_unwritten(value: str, tmp_path: Path) -> None:
    lines = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    path = written(tmp_path, "a.yaml", "\n".join([f"a0: &a0 {value}", *lines]))

    with pytest.raises(UnreadableFile, match="with a copy for each of its aliases"):
        load_object(path)


def test_aliases_within_reason_stand_for_copies(tmp_path: Path) -> None:
    path = written(tmp_path, "a.yaml", "one: &one {a: [1]}\ntwo: [*one, *one]\n")

    assert load_object(path) == {"one": {"a": [1]}, "two": [{"a": [1]}, {"a": [1]}]}


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}"], ids=["list", "object"])
def test_an_alias_that_holds_itself_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        load_object(written(tmp_path, "a.yaml", text))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero, which this system has not")
def test_a_device_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UnreadableFile, match="larger than"):
        load_object(Path("/dev/zero"))


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))  # the whole path may be too long for a socket


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [a_pipe, a_socket, a_device, Path.mkdir], ids=["pipe", "socket", "device", "folder"])
def test_where_nobody_may_wait_only_a_regular_file_is_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    make(path)
    found = make.__name__.replace("_", " ").replace("mkdir", "a folder")

    with pytest.raises(UnreadableFile) as caught:
        load_blueprint(path, may_wait=False)

    assert str(caught.value) == f"{path}: found {found}, expected a regular file"


def test_where_nobody_may_wait_a_file_is_read_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "link.json"
    path.symlink_to(written(tmp_path, "a.json", json.dumps({"name": "a", "system_prompt": "x" * 200_000})))
    too_large = written(tmp_path, "b.json", "")
    os.truncate(too_large, MAX_FILE_BYTES + 1)

    assert load_blueprint(path, may_wait=False) == load_blueprint(path)
    with pytest.raises(UnreadableFile, match="larger than"):
        load_object(too_large, may_wait=False)
