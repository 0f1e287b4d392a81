"""The executable under test: its command, its description and its model."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ao_protocol.attachments import matches

MODEL_KINDS: Final = ("anthropic", "openai-chat", "openai-responses", "gemini")
"""The APIs that the model simulator supports, as keys of `model_endpoint`; the first declared one is used."""
USUAL_SHELL_TOOL: Final = ("Bash", "command")


@dataclass(frozen=True, slots=True)
class Subject:
    """The executable under test, and the options of its tester."""

    command: tuple[str, ...]
    description: Mapping[str, Any]
    """The description that `describe` printed; empty if it printed none."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Defaults for the fields of every invocation, such as an `executor_config` that the executable needs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables from the tester, which override those of the suite."""
    echoes: bool = False
    """Whether the executable answers with its prompt if `AO_CONFORM_ECHO` is set, as a play has shown."""
    shell_tool: tuple[str, str] = USUAL_SHELL_TOOL
    """The tool that runs a command, and the field of its input with the command."""
    counts_should: bool = False
    """Whether a SHOULD that is not followed fails."""
    canary: str = field(default_factory=lambda: f"canary-{secrets.token_hex(8)}")
    """The prefix of every secret value in this execution of the suite. It must be found nowhere (AOX-198)."""

    @property
    def name(self) -> str:
        """The name in the description; that of the command if the description has none."""
        return self.identity.get("name", self.command[0].rpartition("/")[2])

    @property
    def version(self) -> str:
        """The version in the description; empty if it has none."""
        return self.identity.get("version", "")

    @property
    def identity(self) -> Mapping[str, str]:
        """The texts of `executor` in the description, such as its name and its version."""
        executor = self.description.get("executor")
        said = executor.items() if isinstance(executor, Mapping) else ()
        return {name: text for name, text in said if isinstance(text, str)}

    @property
    def agent_types(self) -> Sequence[str]:
        """The types of agents that the executable serves."""
        said = self.description.get("agent_types", ["autonomous"])
        return said if isinstance(said, list) else []

    @property
    def agent_type(self) -> str:
        """The type of agent with which vectors are played."""
        return "procedural" if list(self.agent_types) == ["procedural"] else "autonomous"

    @property
    def model_kind(self) -> str | None:
        """The API of the simulated model; None if the model cannot be simulated."""
        return next((kind for kind in MODEL_KINDS if self.model_variables(kind) is not None), None)

    @property
    def has_model(self) -> bool:
        """Whether its model has a stand-in: the simulator, or a script that the executable plays itself."""
        return self.model_kind is not None or self.script_variable is not None

    @property
    def script_variable(self) -> str | None:
        """The variable with the path of the script, if the model is a script (`ao-script`); None otherwise."""
        return (self.model_variables("ao-script") or {}).get("env")

    def model_variables(self, kind: str) -> Mapping[str, Any] | None:
        """Return the names of the variables of a model endpoint, `env` and perhaps `api_key_env`; None without one."""
        endpoints = self.description.get("model_endpoint")
        found = endpoints.get(kind) if isinstance(endpoints, Mapping) else None
        return found if isinstance(found, Mapping) else None

    def names_of(self, what: str) -> list[str]:
        """Return the variables that the description lists as `secrets` or `environment`."""
        said = self.description.get(what, [])
        return [name for name in said if isinstance(name, str)] if isinstance(said, list) else []

    @property
    def _settings(self) -> Collection[str]:
        """The names in `properties` of the `config_schema`."""
        schema = self.description.get("config_schema")
        said = schema.get("properties") if isinstance(schema, Mapping) else None
        return said if isinstance(said, Mapping) else ()

    @property
    def given_secret(self) -> str | None:
        """The name of a secret variable that every play sets; None if it sets none."""
        if self.model_kind is None:
            return next(iter(self.names_of("secrets")), None)
        name = (self.model_variables(self.model_kind) or {}).get("api_key_env")
        return name if isinstance(name, str) else None

    def secret_of(self, name: str) -> str:
        """Return the value of a secret variable."""
        return f"{self.canary}-{name}"

    def declares(self, capability: str) -> bool:
        """Return whether the description declares a capability.

        `output_schema.native` and `attachments.image/png` name a part of a capability, and `!cancel` asks for the
        contrary. A `model_endpoint` that can be simulated and a setting of the `config_schema`,
        `executor_config.model`, count as capabilities.
        """
        if capability.startswith("!"):
            return not self.declares(capability[1:])
        if capability == "model_endpoint":
            return self.model_kind is not None
        name, _, part = capability.partition(".")
        if name == "executor_config":
            return part in self._settings
        capabilities = self.description.get("capabilities", {})
        said = capabilities.get(name) if isinstance(capabilities, Mapping) else None
        if not part:
            return bool(said)
        if not isinstance(said, Mapping):
            return False
        named = [*said.get("strategies", []), *said.get("formats", [])]
        return part in named or matches(part, said.get("media_types", []))
