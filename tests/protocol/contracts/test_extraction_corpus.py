"""The shared corpus of messy answers, where it lies beside the project; the cases here stand without it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.extraction import Extraction, NoJsonFound, extract_json

CORPUS = Path(__file__).parents[3] / "../shared/data/extraction/corpus.jsonl"
LEAST_LENIENT_SHARE = 0.7


def _cases(mode: str) -> list[dict[str, Any]]:
    if not CORPUS.exists():
        pytest.skip("no corpus at ../shared/data/extraction beside the project")
    cases = map(json.loads, CORPUS.read_text("utf-8").splitlines())
    return [case for case in cases if case["mode"] == mode and "gen" not in case]


def _verdict(case: dict[str, Any], *, lenient: bool) -> str:
    """Say `ok`, `miss`, or `wrong`, when a valid value comes out that is not the answer."""
    may_refuse = case["expect"] == "none" or case.get("accept_none", False)
    try:
        extraction: Extraction = extract_json(case["text"], case["schema"], lenient=lenient)
    except NoJsonFound:
        return "ok" if may_refuse else "miss"
    wanted = [case["expected"]] if case["expect"] == "value" else []
    if _as_text(extraction.value) in map(_as_text, wanted + case.get("accept", [])):
        return "ok"
    if extraction.valid:
        return "wrong"
    return "ok" if may_refuse else "miss"


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _named(cases: list[dict[str, Any]], verdict: str, *, lenient: bool) -> list[str]:
    return [case["id"] for case in cases if _verdict(case, lenient=lenient) == verdict]


def test_strict_reading_solves_every_exact_case() -> None:
    cases = _cases("exact")

    assert [case["id"] for case in cases if _verdict(case, lenient=False) != "ok"] == []


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("mode", ["exact", "lenient"])
def test_nothing_wrong_is_ever_given(mode: str, lenient: bool) -> None:
    assert _named(_cases(mode), "wrong", lenient=lenient) == []


def test_lenient_reading_solves_most_damaged_cases() -> None:
    cases = _cases("lenient")

    assert len(_named(cases, "ok", lenient=True)) >= LEAST_LENIENT_SHARE * len(cases)
