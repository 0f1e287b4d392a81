"""What people write is refused with its place, or read as every receiver reads it."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_model_simulator.script import ScriptError, load_script
from ao_protocol.framing import decode_object, encode_line
from ao_protocol.written import NotInteroperable, check_name, decode_text, parse_json, parse_yaml
from tests.odd_values import ODD_NAMES, ODD_VALUES, OddValue


@pytest.mark.parametrize("odd", ODD_VALUES.values(), ids=ODD_VALUES)
def test_an_odd_value_is_refused_with_its_place_or_can_be_sent(odd: OddValue) -> None:
    written = b'{"parameters": {"prompt": ' + odd.written + b"}}"
    if odd.problem is None:
        document: Any = parse_json(decode_text(written), 64)
        assert document == json.loads(written)
        assert decode_object(encode_line(document)) == document
        return
    with pytest.raises(NotInteroperable) as refused:
        parse_json(decode_text(written), 63)
    assert odd.problem in str(refused.value)
    assert str(refused.value).startswith("$.parameters.prompt") == odd.is_text


@pytest.mark.parametrize(("name", "is_accepted"), ODD_NAMES.values(), ids=ODD_NAMES)
def test_a_name_is_what_lists_and_addresses_can_hold(name: str, is_accepted: bool) -> None:
    if is_accepted:
        assert check_name(name) == name
        return
    with pytest.raises(NotInteroperable, match="expected a name of 1 to 512 characters"):
        check_name(name)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_an_accepted_name_has_no_character_that_a_store_or_a_terminal_cannot_take(name: str) -> None:
    try:
        check_name(name)
    except NotInteroperable:
        return
    assert not {unicodedata.category(character) for character in name} & {"Cc", "Cs"}


SCALARS = (
    "no", "yes", "on", "Off", "y", "1:30", "2026-01-31", "0777", "0o17", "0x1F", "-0x1", "+1", "-0", "1.", ".5", "1e3",
    "1_000", "~", "null", "Null", "nULL", "true", "TRUE", "tRue", "=", "<<", "", "'no'", '"1"',
)  # fmt: skip


@pytest.mark.parametrize("scalar", SCALARS)
def test_a_model_script_is_read_as_a_blueprint_is(scalar: str, tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(f"answers:\n- json: {scalar}\n")

    assert {"a": load_script(path).answers[0].json_value} == parse_yaml(f"a: {scalar}")


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_a_model_script_that_is_nested_too_deep_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"script.{ending}"
    path.write_text("[" * 100_000)

    with pytest.raises(ScriptError, match="recursion depth"):
        load_script(path)
