"""How an answer resolves a request, beyond what the vectors of SPEC 8.3 show: they need a request of another form."""

from typing import Any

import pytest

from ao_protocol.input_answers import InvalidAnswer, Resolution, resolution_of

ALLOW: dict[str, Any] = {"id": "allow", "label": "Allow", "effect": "allow"}
DENY: dict[str, Any] = {"id": "deny", "label": "Deny", "effect": "deny"}
EDIT: dict[str, Any] = {"id": "edit", "label": "Change it", "effect": "other"}
CHOICE: dict[str, Any] = {"request_id": "q1", "kind": "permission", "title": "?", "options": [ALLOW, DENY, EDIT]}
VALUE: dict[str, Any] = {"request_id": "q1", "kind": "question", "title": "?", "schema": {"type": ["integer", "null"]}}
EXPIRED: dict[str, Any] = {"outcome": "expired", "by": "timeout"}


@pytest.mark.requirement("AOX-154")
@pytest.mark.parametrize(
    ("request_fields", "response", "resolution"),
    [
        pytest.param(CHOICE, {"option_id": "edit"}, Resolution("accepted", "person", "edit"), id="neither yes nor no"),
        pytest.param(
            {**CHOICE, "options": [DENY, {**ALLOW, "id": "deny"}]},
            {"option_id": "deny"},
            Resolution("declined", "person", "deny"),
            id="of two options with one id the first",
        ),
        pytest.param(
            CHOICE,
            {"option_id": "deny", "value": "x"},
            Resolution("declined", "person", "deny"),
            id="denied with words",
        ),
        pytest.param(VALUE, {"value": 3}, Resolution("accepted", "person", None, 3), id="a value"),
        pytest.param(VALUE, {}, Resolution("accepted", "person"), id="null, where the schema allows it"),
        pytest.param(
            {**CHOICE, **VALUE}, {"option_id": "allow"}, Resolution("accepted", "person", "allow"), id="no value needed"
        ),
        pytest.param(
            {**CHOICE, "default": "deny"},
            EXPIRED,
            Resolution("expired", "timeout", "deny"),
            id="expired to its default",
        ),
        pytest.param(
            {**CHOICE, "default": "allow"},
            EXPIRED,
            Resolution("expired", "timeout"),
            id="never expired to an allowance",
        ),
        pytest.param(
            {**CHOICE, "default": "gone"}, EXPIRED, Resolution("expired", "timeout"), id="expired to an unknown option"
        ),
        pytest.param(
            {**CHOICE, "default": "deny"},
            {"outcome": "cancelled", "by": "policy"},
            Resolution("cancelled", "policy"),
            id="cancelled without its default",
        ),
    ],
)
def test_an_answer_resolves_its_request(
    request_fields: dict[str, Any], response: dict[str, Any], resolution: Resolution
) -> None:
    assert resolution_of(request_fields, response) == resolution


@pytest.mark.requirement("AOX-154")
@pytest.mark.parametrize(
    ("request_fields", "response", "sentence"),
    [
        pytest.param(CHOICE, {}, "option_id is missing; expected one of allow, deny, edit", id="nothing"),
        pytest.param(
            CHOICE, {"option_id": "allow", "value": 1}, "value is set, and the request takes none", id="value"
        ),
        pytest.param(VALUE, {"option_id": "allow"}, "expected no option, but a value", id="no options"),
        pytest.param(VALUE, {"value": "3"}, r"value does not match the schema: \$: ", id="another type"),
        pytest.param(CHOICE, {"outcome": "accepted"}, "option_id is missing", id="accepted, but what"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_what_was_expected(
    request_fields: dict[str, Any], response: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidAnswer, match=sentence):
        resolution_of(request_fields, response)


def test_the_value_of_an_answer_is_not_in_the_event_that_tells_of_it() -> None:
    assert Resolution("accepted", "person", None, "a password").to_fields("q1") == {
        "request_id": "q1",
        "outcome": "accepted",
        "by": "person",
    }
