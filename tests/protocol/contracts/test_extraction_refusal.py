"""What two receivers would read differently, or what would harm the reader, is refused for its own reason."""

import pytest

from ao_protocol.extraction import NoJsonFound, Reason, Source, extract_json


def _refusal_of(text: str) -> Reason:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text)
    return caught.value.reason


@pytest.mark.parametrize("text", ["", " \n", "I cannot answer.", "```json\n```", "<json></json>", "}", "{not json}"])
def test_nothing_that_begins_like_json(text: str) -> None:
    assert _refusal_of(text) is Reason.NO_CANDIDATE


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"n": 01}',
        '{"a": +1}',
        '{"a": .5}',
        '{"a": 0x1}',
        '{"a": 1,}',
        '{"a": "x\ty"}',
        '{"a": "\\x41"}',
        "{'a': 1}",
        "[1 2]",
    ],
)
def test_nearly_json(text: str) -> None:
    assert _refusal_of(text) is Reason.INVALID_JSON


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"k":{"a":1,"a":true}}', 'So [{"n":"a","n":"b"}]'])
def test_one_key_with_two_values(text: str) -> None:
    assert _refusal_of(text) is Reason.DUPLICATE_KEYS


def test_one_key_with_one_value_twice_is_read() -> None:
    assert extract_json('{"k":[{"b":"v","b":"v"}]}').value == {"k": [{"b": "v"}]}


@pytest.mark.parametrize(
    "text",
    ['{"n": -1e999}', f'{{"n": {"9" * 5000}}}', f"[{'9' * 400}.5]", f'["{"x" * 5000}", 1E+400]'],
    ids=["exponent", "digits", "long fraction", "in a long text"],
)
def test_numbers_that_no_double_or_reader_holds(text: str) -> None:
    assert _refusal_of(text) is Reason.NUMBER_OUT_OF_RANGE


@pytest.mark.parametrize("text", ["[" * 10_000 + "]" * 10_000, "So " + '{"a":' * 300 + "1" + "}" * 300])
def test_depth(text: str) -> None:
    assert _refusal_of(text) is Reason.TOO_DEEP


def test_a_hundred_levels_are_read() -> None:
    value = extract_json("Result: " + "[" * 100 + "]" * 100).value

    for _ in range(99):
        assert isinstance(value, list)
        value = value[0]
    assert value == []


def test_size() -> None:
    assert _refusal_of(" " * (16 * 1024 * 1024 + 1)) is Reason.TOO_LARGE


@pytest.mark.parametrize("value", ["[]", '{"a" '])
def test_number_of_values(value: str) -> None:
    assert _refusal_of(value * 100_001) is Reason.TOO_MANY_VALUES


def test_a_long_text_is_read_whole_and_not_searched() -> None:
    long = '{"a": "' + "x" * 1024 * 1024 + '"}'

    assert extract_json(long).source is Source.WHOLE
    with pytest.raises(NoJsonFound, match="JSON is looked for in at most 1048576; answer with the JSON alone"):
        extract_json(f"Here it is: {long}")


HOSTILE = (
    *("{", "[", "[1,", '{"a":', '[{"a":', "```json\n", '{"', "\\", '{"a":"\\', "}", "{a: ", "{'a': ", "<think>"),
    *(
        "<answer>",
        "</think>",
        "<a b ",
        "``` ",
        "<!--",
        "{//",
        "{/*}",
        "{#}",
        "{“a",
        '{\\"',
        '> {"a":1,}\n',
        "[tr",
        "~~~ ",
    ),
)


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_texts_end(pattern: str, lenient: bool) -> None:
    with pytest.raises(NoJsonFound):
        extract_json(pattern * 20_000, {"type": "string", "minLength": 1}, lenient=lenient)
