"""Builds the examples where their toolchain is there."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from ao_executors.scaffold.project import build_commands, make_project

PROGRAMS: Final = {
    "bash": "jq",
    "node": "node",
    "perl": "perl",
    "php": "php",
    "python": "python3",
    "ruby": "ruby",
    "c": "jansson",
    "go": "go",
    "rust": "serde_json",
}
"""By language, what has to be there."""

CRATES: Final = Path("/usr/share/cargo/registry")
"""Where Debian's packages have the sources of crates, so that no registry is asked."""

_PROBES: Final = {
    "go": "go version",
    "jansson": "echo '#include <jansson.h>' | cc -E -",
    "serde_json": f"cargo --version && ls -d {CRATES}/serde_json-*",
}
_SOURCES: Final = f"""\
[source.crates-io]
replace-with = "debian"
[source.debian]
directory = "{CRATES}"
"""
BUILD_SECONDS: Final = 100


def is_there(program: str) -> bool:
    """Tell whether a toolchain runs; that of Rust may be a link to one that somebody else has."""
    probe = _PROBES.get(program, f"{program} --version")
    return (
        subprocess.run(["/bin/sh", "-c", probe], capture_output=True, timeout=BUILD_SECONDS, check=False).returncode
        == 0
    )


def skip_without(program: str, untested: str) -> None:
    """Skip the test that is running where a program does not run, and say what is not tested therefore."""
    if not is_there(program):
        how = ".ci/toolchains installs it on Debian, as root"
        pytest.skip(f"{program} does not run here, so {untested} is not tested; {how}")


def build_example(language: str, folder: Path, name: str) -> Path:
    """Return the executable of an example that is called `name`, made and built in a new folder."""
    project = make_project(language, folder, name)
    if language == "rust":
        (folder / ".cargo").mkdir()
        (folder / ".cargo" / "config.toml").write_text(_SOURCES)
    for command in build_commands(language, name):
        argv = ["/bin/sh", "-c", command]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=BUILD_SECONDS)
    return folder / project.executable
