"""Where the value of a secret shows that should show nowhere (AOX-263)."""

import base64
from collections.abc import Sequence

from ao_conformance.driver.transcript import OutputLine
from ao_conformance.runner_suite.stage import Stage
from ao_conformance.surroundings import files_with


def places_of_secret(stage: Stage, lines: Sequence[OutputLine], stderr: bytes) -> list[str]:
    """Return where a form of it was found: lines of stdout, stderr, files that the runner has kept."""
    needles = forms_of(stage.secret)
    found = []
    for form, needle in needles.items():
        found += [f"stdout, line {line.number} ({form})" for line in lines if needle in line.raw][:1]
        if needle in stderr:
            found.append(f"stderr ({form})")
        for folder in (stage.home, stage.project_dir):
            told = files_with(needle, sorted(folder.rglob("*")))
            found += [f"the file {path.relative_to(folder.parent)} ({form})" for path in told]
    return found


def forms_of(secret: str) -> dict[str, bytes]:
    """Return what to look for.

    The first part of the secret is the same as it is, JSON-escaped and percent-encoded. The last character of base64
    depends on what stands behind.
    """
    encoded = base64.b64encode(secret.encode()).rstrip(b"=")[:-1]
    return {"as it is or escaped": secret.partition("/")[0].encode(), "base64": encoded}
