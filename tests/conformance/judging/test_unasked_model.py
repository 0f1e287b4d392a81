"""An executor that does not use the model's URL is told so, and not only what comes of it."""

from pathlib import Path

from ao_conformance.suite import Plan, run_suite
from ao_conformance.vectors import load_process_vectors
from ao_conformance.verdict import Verdict

REFERENCE = Path(__file__).parents[1] / "reference" / "ao-reference-exec"


def test_a_url_that_is_not_used_is_named(tmp_path: Path) -> None:
    program = tmp_path / "ao-reference-exec"
    program.write_text(f'#!/bin/sh\nANTHROPIC_BASE_URL=http://127.0.0.1:9 exec {REFERENCE} "$@"\n')
    program.chmod(0o755)
    vectors = [vector for vector in load_process_vectors() if vector.id in {"start", "wrong-no-mode"}]

    told = {found.id: found for found in run_suite(Plan(command=(str(program),), vectors=vectors)).vectors}

    assert (
        told["start"]
        .findings[0]
        .found.endswith("the model was never asked: is ANTHROPIC_BASE_URL, which describe names, used as its URL?")
    )
    assert told["wrong-no-mode"].verdict is Verdict.PASS
