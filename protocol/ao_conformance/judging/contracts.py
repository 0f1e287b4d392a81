"""Whether a result says its answer where it belongs: as data under a contract, as text otherwise (AOX-075)."""

from collections.abc import Iterator, Mapping
from typing import Any

from ao_conformance.judging.reading import Output
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding

OF_BLUEPRINTS = ("output_schema", "output_format", "default_output_schema")


def judge_contract(
    subject: Subject, invocation: Mapping[str, Any] | None, output: Output, *, data_is_expected: bool = False
) -> Iterator[Finding]:
    """Find results whose answer stands in the wrong field.

    `data_is_expected` says that the vector itself names the data, so that it tells where there is none.
    """
    if invocation is None or subject.agent_type != "autonomous" or not subject.declares("output_schema"):
        return
    blueprint = invocation.get("agent_blueprint")
    demanded = invocation.get("output_schema") is not None or (
        isinstance(blueprint, Mapping) and any(blueprint.get(name) is not None for name in OF_BLUEPRINTS)
    )
    hint = invocation.get("output_schema_hint") is not None
    for event in output.events:
        if event.type != "result":
            continue
        text, data = event.document.get("result_text"), event.document.get("result_data")
        if demanded and text is not None and not (data is None and data_is_expected):
            yield Finding(
                "AOX-075",
                "result_data, and no result_text, under an output contract",
                "result_text is there",
                line=event.line,
            )
        elif not demanded and not hint and data is not None:
            yield Finding(
                "AOX-075",
                "result_text, and no result_data, without an output contract",
                "result_data is there",
                line=event.line,
            )
