"""Local model APIs that answer from a script and record what the model was told."""

from ao_model_simulator.claude_environment import claude_environment
from ao_model_simulator.endpoints import UnknownKind, base_url, environment_for
from ao_model_simulator.model_request import ModelRequest, RecordedRequest, Verdict
from ao_model_simulator.script import Answer, Expectation, Script
from ao_model_simulator.script_file import ScriptError, load_script
from ao_model_simulator.simulator import ModelSimulator, ScriptNotSatisfied

__all__ = [
    "Answer",
    "Expectation",
    "ModelRequest",
    "ModelSimulator",
    "RecordedRequest",
    "Script",
    "ScriptError",
    "ScriptNotSatisfied",
    "UnknownKind",
    "Verdict",
    "base_url",
    "claude_environment",
    "environment_for",
    "load_script",
]
