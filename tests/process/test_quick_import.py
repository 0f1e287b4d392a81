"""Programs import with less CPU and behave the same; each story is a Python of its own."""

import subprocess
import sys

import pytest

MODEL = "from pydantic import BaseModel\nclass Point(BaseModel):\n    x: int\nprint(Point(x='7').x)\n"
STORIES = {
    "pydantic searches no packages for plugins": (
        "begin_imports()\n" + MODEL + "print('importlib.metadata' in sys.modules)",
        "7\nFalse",
    ),
    "what else pydantic asks of the module comes from the real one": (
        "begin_imports()\nfrom pydantic.plugin._loader import PYDANTIC_ENTRY_POINT_GROUP, get_plugins\n"
        "print(PYDANTIC_ENTRY_POINT_GROUP, list(sys.modules['pydantic.plugin._loader'].get_plugins()))",
        "pydantic []",
    ),
    "garbage is collected again after the imports": (
        "begin_imports()\nprint(gc.isenabled())\nend_imports()\nprint(gc.isenabled())",
        "False\nTrue",
    ),
    "a second end of the imports keeps no garbage": (
        "begin_imports()\nend_imports()\nbefore = gc.get_freeze_count()\nnames = [object() for _ in range(99)]\n"
        "end_imports()\nprint(gc.get_freeze_count() == before)",
        "True",
    ),
}


@pytest.mark.parametrize(("script", "expected"), STORIES.values(), ids=STORIES)
def test_programs_import_with_less(script: str, expected: str) -> None:
    script = f"import gc, sys\nfrom ao_protocol.quick_import import begin_imports, end_imports\n{script}"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == expected
