"""A local Anthropic Messages API that answers from a script and records what the model was told."""

from ao_conformance.model_sim.claude_environment import claude_environment
from ao_conformance.model_sim.model_request import ModelRequest, RecordedRequest, Verdict
from ao_conformance.model_sim.script import Answer, Expectation, Script
from ao_conformance.model_sim.script_file import ScriptError, load_script
from ao_conformance.model_sim.simulator import ModelSimulator, ScriptNotSatisfied

__all__ = [
    "Answer",
    "Expectation",
    "ModelRequest",
    "ModelSimulator",
    "RecordedRequest",
    "Script",
    "ScriptError",
    "ScriptNotSatisfied",
    "Verdict",
    "claude_environment",
    "load_script",
]
