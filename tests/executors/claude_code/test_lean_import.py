"""The SDK is imported without the half of it that no executor uses; each story is a Python of its own."""

import subprocess
import sys
from pathlib import Path

import pytest


def python(program: str, *, path: Path | None = None) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, cwd=path
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_the_sdk_comes_without_mcp_and_jsonschema() -> None:
    loaded = python(
        "import sys, ao_executors.claude_code.sdk\n"
        "packages = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(packages & {'claude_agent_sdk', 'jsonschema', 'mcp', 'mcp_types', 'uvicorn'}))"
    )

    assert loaded == "['claude_agent_sdk']"


def test_whoever_wants_mcp_afterwards_gets_the_real_one() -> None:
    name = python(
        "import ao_executors.claude_code.sdk\nfrom mcp.types import Tool\nprint(Tool(name='grep', inputSchema={}).name)"
    )

    assert name == "grep"


def test_where_mcp_is_loaded_already_the_sdk_has_it() -> None:
    is_same = python(
        "from mcp.server import Server\n"
        "import ao_executors.claude_code.sdk\n"
        "from claude_agent_sdk._internal import _mcp_compat\n"
        "print(_mcp_compat.Server is Server)"
    )

    assert is_same == "True"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A package that needs a number of another one as soon as it is imported, which a placeholder is not."""
    (tmp_path / "heavy.py").write_text("LIMIT = 7\n")
    (tmp_path / "light.py").write_text("from heavy import LIMIT\n\nTWICE = LIMIT * 2\n")
    return tmp_path


def test_a_package_that_needs_the_other_one_is_imported_whole(packages: Path) -> None:
    twice = python(
        "from ao_executors.claude_code.lean_import import import_without\n"
        "import_without('light', unused='heavy')\n"
        "import light\n"
        "print(light.TWICE)",
        path=packages,
    )

    assert twice == "14"


def test_a_placeholder_that_is_used_after_all_says_what_it_is(packages: Path) -> None:
    (packages / "light.py").write_text("from heavy.things import Thing\n\n\nclass Own(Thing, frozen=True):\n    pass\n")

    said = python(
        "from ao_executors.claude_code.lean_import import import_without\n"
        "import_without('light', unused='heavy')\n"
        "import light\n"
        "try:\n"
        "    light.Thing('rook')\n"
        "except ImportError as error:\n"
        "    print(error)",
        path=packages,
    )

    assert said == "heavy.things.Thing was left out of the import: nobody used it"


def test_a_deferred_package_is_imported_by_the_first_name_that_is_used(packages: Path) -> None:
    (packages / "light.py").write_text("import heavy\n\n\ndef limit():\n    return heavy.LIMIT\n")

    said = python(
        "import sys\n"
        "from ao_executors.claude_code.lean_import import deferred\n"
        "with deferred('heavy'):\n"
        "    import light\n"
        "print('heavy' in sys.modules, light.limit(), 'heavy' in sys.modules)",
        path=packages,
    )

    assert said == "False 7 True"


def test_who_imports_a_name_of_a_deferred_package_meanwhile_gets_the_real_one(packages: Path) -> None:
    said = python(
        "from ao_executors.claude_code.lean_import import deferred\n"
        "with deferred('heavy'):\n"
        "    from heavy import LIMIT\n"
        "    import heavy\n"
        "print(LIMIT, heavy.__file__.endswith('heavy.py'))",
        path=packages,
    )

    assert said == "7 True"
