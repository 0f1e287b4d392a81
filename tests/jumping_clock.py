"""A wall clock that jumps: a library for LD_PRELOAD, built for one test."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


def build_jumping_clock(folder: Path) -> str:
    """Build the library in a folder and return its path, or skip the test where there is no compiler."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("none of cc, gcc and clang is there to build the library that makes a wall clock jump")
    library = folder / "jumping_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE], check=True, timeout=60)
    return str(library)
