"""The executable under test: its command, what it says of itself, and what stands for its model."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MODEL_KINDS: Final = ("anthropic", "openai-chat", "openai-responses", "gemini")
"""The APIs that the model simulator speaks, as keys of `model_endpoint`; the first that is declared is used."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is tested, and what its tester says about it."""

    command: tuple[str, ...]
    description: Mapping[str, Any]
    """As `describe` printed it, or an empty one where it printed none."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are put below those of every invocation, such as an `executor_config` that it cannot do without."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that its tester hands to it, over those of the suite."""
    echoes: bool = False
    """Whether it answers with its prompt where `AO_CONFORM_ECHO` is set, as a play has shown."""
    canary: str = field(default_factory=lambda: f"canary-{secrets.token_hex(8)}")
    """Begins the value of every secret variable, in this run of the suite alone; it must be found nowhere (AOX-198)."""

    @property
    def name(self) -> str:
        """Its name and version for people; the command's where it says none."""
        executor = self.description.get("executor")
        named = executor.get("name") if isinstance(executor, Mapping) else None
        return named if isinstance(named, str) else self.command[0].rpartition("/")[2]

    @property
    def version(self) -> str:
        """As the description says; empty where it says nothing."""
        executor = self.description.get("executor")
        said = executor.get("version") if isinstance(executor, Mapping) else None
        return said if isinstance(said, str) else ""

    @property
    def agent_types(self) -> Sequence[str]:
        """Which agents it serves."""
        said = self.description.get("agent_types", ["autonomous"])
        return said if isinstance(said, list) else []

    @property
    def agent_type(self) -> str:
        """The kind of agent that vectors are played with."""
        return "procedural" if list(self.agent_types) == ["procedural"] else "autonomous"

    @property
    def model_kind(self) -> str | None:
        """The API in which its model is simulated; None where it has no model that can be."""
        endpoints = self.description.get("model_endpoint")
        if not isinstance(endpoints, Mapping):
            return None
        return next((kind for kind in MODEL_KINDS if isinstance(endpoints.get(kind), Mapping)), None)

    @property
    def has_model(self) -> bool:
        """Whether anything stands for its model: a simulated one, or a script that it plays itself."""
        return self.model_kind is not None or self.script_variable is not None

    @property
    def script_variable(self) -> str | None:
        """The variable that names the script of an executor whose model is one (`ao-script`); None for others."""
        endpoints = self.description.get("model_endpoint")
        found = endpoints.get("ao-script") if isinstance(endpoints, Mapping) else None
        return found.get("env") if isinstance(found, Mapping) else None

    def model_variables(self, kind: str) -> Mapping[str, Any]:
        """The names of the variables that point it at a model: `env`, and perhaps `api_key_env`."""
        variables: Mapping[str, Any] = self.description["model_endpoint"][kind]
        return variables

    def names_of(self, what: str) -> list[str]:
        """The variables that the description lists as `secrets` or `environment`."""
        said = self.description.get(what, [])
        return [name for name in said if isinstance(name, str)] if isinstance(said, list) else []

    @property
    def given_secret(self) -> str | None:
        """The name of a secret variable that it has in every play; None where it has none."""
        if self.model_kind is None:
            return next(iter(self.names_of("secrets")), None)
        name = self.model_variables(self.model_kind).get("api_key_env")
        return name if isinstance(name, str) else None

    def secret_of(self, name: str) -> str:
        """The value of a secret variable."""
        return f"{self.canary}-{name}"

    def declares(self, capability: str) -> bool:
        """Whether the description declares a capability.

        `output_schema.native` is a part of one, `!cancel` asks for the contrary, and `model_endpoint` counts as one.
        """
        if capability.startswith("!"):
            return not self.declares(capability[1:])
        if capability == "model_endpoint":
            return self.model_kind is not None
        name, _, part = capability.partition(".")
        capabilities = self.description.get("capabilities", {})
        said = capabilities.get(name) if isinstance(capabilities, Mapping) else None
        if not part:
            return bool(said)
        if not isinstance(said, Mapping):
            return False
        return part in [*said.get("strategies", []), *said.get("formats", [])]
