"""The SDK is imported without the half of it that no executor uses; each story is a Python of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = "LIMIT = 7\n"
USES_IT_AT_ONCE = "from heavy import LIMIT\n\nTWICE = LIMIT * 2\n"
INHERITS = "from heavy.things import Thing\n\n\nclass Own(Thing, frozen=True):\n    pass\n"
USES_IT_LATER = "import heavy\n\n\ndef limit():\n    return heavy.LIMIT\n"

STORIES = {
    "the SDK comes without mcp and jsonschema": (
        "",
        "import sys, ao_executors.claude_code.sdk\n"
        "packages = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(packages & {'claude_agent_sdk', 'jsonschema', 'mcp', 'mcp_types', 'uvicorn'}))",
        "['claude_agent_sdk']",
    ),
    "whoever wants mcp afterwards gets the real one": (
        "",
        "import ao_executors.claude_code.sdk\nfrom mcp.types import Tool\n"
        "print(Tool(name='grep', inputSchema={}).name)",
        "grep",
    ),
    "where mcp is loaded already the SDK has it": (
        "",
        "from mcp.server import Server\nimport ao_executors.claude_code.sdk\n"
        "from claude_agent_sdk._internal import _mcp_compat\nprint(_mcp_compat.Server is Server)",
        "True",
    ),
    "a package that needs the other one is imported whole": (
        USES_IT_AT_ONCE,
        "from ao_executors.claude_code.lean_import import import_without\n"
        "import_without('light', unused='heavy')\nimport light\nprint(light.TWICE)",
        "14",
    ),
    "a placeholder that is used after all says what it is": (
        INHERITS,
        "from ao_executors.claude_code.lean_import import import_without\n"
        "import_without('light', unused='heavy')\nimport light\n"
        "try:\n    light.Thing('rook')\nexcept ImportError as error:\n    print(error)",
        "heavy.things.Thing was left out of the import: nobody used it",
    ),
    "a deferred package is imported by the first name that is used": (
        USES_IT_LATER,
        "import sys\nfrom ao_executors.claude_code.lean_import import deferred\n"
        "with deferred('heavy'):\n    import light\n"
        "print('heavy' in sys.modules, light.limit(), 'heavy' in sys.modules)",
        "False 7 True",
    ),
    "who imports a name of a deferred package meanwhile gets the real one": (
        "",
        "from ao_executors.claude_code.lean_import import deferred\n"
        "with deferred('heavy'):\n    from heavy import LIMIT\n    import heavy\n"
        "print(LIMIT, heavy.__file__.endswith('heavy.py'))",
        "7 True",
    ),
}


@pytest.mark.parametrize(("light", "program", "printed"), STORIES.values(), ids=STORIES)
def test_what_is_left_out_of_an_import_is_there_for_whoever_needs_it(
    tmp_path: Path, light: str, program: str, printed: str
) -> None:
    (tmp_path / "heavy.py").write_text(HEAVY)
    (tmp_path / "light.py").write_text(light)

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100, cwd=tmp_path
    )

    assert (ended.returncode, ended.stdout.strip()) == (0, printed), ended.stderr
