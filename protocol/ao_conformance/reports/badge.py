"""The badge: the document that shields.io reads from a URL of one's own (https://shields.io/badges/endpoint-badge)."""

import json

from ao_conformance.reports.overview import PROTOCOL_NAME, kept_of_applicable, scope
from ao_conformance.reports.visible import visible
from ao_conformance.verdict import SuiteResult, Verdict


def badge_text(result: SuiteResult) -> str:
    """Return the badge, such as `core 3.0: 74/74`: requirements kept, of those that apply.

    It is green when everything is kept, yellow when the run passes with warnings or known failures, red when it fails,
    and grey when nothing could be said.
    """
    kept, applicable = kept_of_applicable(result)
    badge: dict[str, object] = {
        "schemaVersion": 1,
        "label": PROTOCOL_NAME,
        "message": visible(f"{scope(result)} {result.protocol_version}: {kept}/{applicable}"),
        "color": _colour(result),
    }
    if result.left_out:
        badge |= {"message": visible(f"{scope(result)} {result.protocol_version}: a selection"), "color": "lightgrey"}
    if result.verdict is Verdict.HARNESS_ERROR or result.is_interrupted:
        badge |= {"message": visible(f"{scope(result)} {result.protocol_version}: not tested"), "isError": True}
    return json.dumps(badge, ensure_ascii=False) + "\n"


def _colour(result: SuiteResult) -> str:
    kept, applicable = kept_of_applicable(result)
    match result.verdict:
        case Verdict.HARNESS_ERROR:
            return "lightgrey"
        case Verdict.FAIL | Verdict.UNTESTABLE:
            return "red"
        case Verdict.WARN:
            return "yellow"
        case _:
            return "brightgreen" if kept == applicable else "yellow"
