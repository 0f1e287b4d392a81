"""Local model APIs that answer from a script and record the requests (docs/model-simulator.md).

The public API is `__all__`, and `ao_model_simulator.pytest_plugin` for tests. Every other module is internal.
"""

from importlib.metadata import version

from ao_model_simulator.endpoints import UnknownKind, base_url, claude_environment, environment_for
from ao_model_simulator.model_request import ModelRequest, RecordedRequest, Verdict
from ao_model_simulator.playback import find_mismatches
from ao_model_simulator.script import Answer, Expectation, Script, ScriptError, load_script
from ao_model_simulator.server import CannotListen
from ao_model_simulator.simulator import ModelSimulator, ScriptNotSatisfied

__version__ = version("ao-executor-protocol")

__all__ = [
    "Answer",
    "CannotListen",
    "Expectation",
    "ModelRequest",
    "ModelSimulator",
    "RecordedRequest",
    "Script",
    "ScriptError",
    "ScriptNotSatisfied",
    "UnknownKind",
    "Verdict",
    "__version__",
    "base_url",
    "claude_environment",
    "environment_for",
    "find_mismatches",
    "load_script",
]
