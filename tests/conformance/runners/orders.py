"""What the reference runner is asked for: what it refuses, and what it sends."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ao_protocol.contracts import AgentResponseFormat, OutputContract, Strategy, demand_of, enrich
from ao_protocol.documents import (
    Description,
    Invocation,
    InvocationRefused,
    OutputSchemaCapability,
    invocation_from_document,
)
from ao_protocol.errors import ErrorType
from ao_protocol.framing import MAX_INVOCATION_BYTES
from ao_protocol.inputs import text_for_agent
from ao_protocol.refusals import (
    contract_or_refusal,
    refuse_config,
    refuse_parameters,
    refuse_undeclared_settings,
    refuse_unreadable_attachments,
    refuse_what_is_not_served,
    with_offered_strategy,
)

Document = dict[str, Any]
OF_RUNNERS = (Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.EXTRACT)


class Order:
    """A run that is asked for: its fields of the invocation, and every reason to refuse it."""

    def __init__(self, blueprint: str, prompt: str, project_dir: str, config: str | None, files: Sequence[str]) -> None:
        self.blueprint: Document = json.loads(Path(blueprint).read_text())
        self.parameters: Document = {"prompt": prompt}
        self.project_dir = project_dir
        self.config: Document = {} if config is None else json.loads(Path(config).read_text())
        self.attachments: list[Document] = []
        for file, _, media_type in (one.rpartition(":") for one in files):
            self.attachments.append({"name": Path(file).name, "media_type": media_type, "path": file})
        self.contract: OutputContract | None = None
        self.keeps_contract = False

    def check(self, document: Document) -> None:
        """Refuse what no executor can do anything about."""
        self.check_length(document)
        invocation = self.read_invocation(document)
        self.check_folder()
        self.check_files(invocation)
        self.check_parameters(invocation)
        self.check_contract(invocation)

    def check_against(self, description: Description, document: Document) -> None:
        """Refuse what the description rules out."""
        self.check_what_is_served(self.read_invocation(document), description)
        self.check_config(description)
        self.check_common_settings(description)
        if self.contract is not None:
            self.check_strategy(self.contract, description)

    def read_invocation(self, document: Document) -> Invocation:
        return invocation_from_document(document)

    def check_length(self, document: Document) -> None:
        size = len(json.dumps(document, ensure_ascii=False).encode())
        if size > MAX_INVOCATION_BYTES:
            details: Document = {"limit_bytes": MAX_INVOCATION_BYTES}
            raise InvocationRefused(ErrorType.INVOCATION_TOO_LARGE, f"it has {size} bytes", details)

    def check_folder(self) -> None:
        if not Path(self.project_dir).is_dir():
            raise InvocationRefused(ErrorType.WORKSPACE_ERROR, f"{self.project_dir} is not a directory")

    def check_files(self, invocation: Invocation) -> None:
        refuse_unreadable_attachments(invocation.attachments or [])

    def check_parameters(self, invocation: Invocation) -> None:
        refuse_parameters(invocation)

    def check_contract(self, invocation: Invocation) -> None:
        if invocation.agent_blueprint is not None:
            self.contract = contract_or_refusal(demand_of(invocation.agent_blueprint), {})

    def check_what_is_served(self, invocation: Invocation, description: Description) -> None:
        refuse_what_is_not_served(invocation, description)

    def check_config(self, description: Description) -> None:
        refuse_config(self.config, description)

    def check_common_settings(self, description: Description) -> None:
        refuse_undeclared_settings(self.config, description)

    def check_strategy(self, contract: OutputContract, description: Description) -> None:
        capability = description.capabilities.output_schema
        if isinstance(capability, OutputSchemaCapability) and (
            not isinstance(contract.format, AgentResponseFormat) or "agent_response" in capability.formats
        ):
            self.contract = with_offered_strategy(contract, capability.strategies, is_resume=False)
        else:
            self.contract = with_offered_strategy(contract, OF_RUNNERS, is_resume=False, usual=Strategy.PROMPT)
            self.keeps_contract = True

    def fields(self) -> Document:
        """Return what the invocation says of the run."""
        blueprint = {name: value for name, value in self.blueprint.items() if value is not None}
        prompt = self.prompt()
        if self.keeps_contract and self.contract is not None:
            blueprint = {name: value for name, value in blueprint.items() if "output_" not in name}
            if self.contract.strategy is Strategy.SYSTEM_PROMPT:
                blueprint["system_prompt"] = enrich(blueprint.get("system_prompt"), self.contract.format)
            elif prompt is not None and self.contract.strategy is Strategy.PROMPT:
                prompt = self.with_demand(prompt, self.contract)
        document: Document = {"parameters": self.parameters, "agent_blueprint": blueprint}
        document |= {"executor_config": self.config, "project_dir": self.project_dir}
        if self.attachments:
            document |= {"attachments": self.attachments, "requires": ["attachments"]}
        return document if prompt is None else {**document, "prompt": prompt}

    def prompt(self) -> str | None:
        """Return the text for the agent, without a contract's demand; None where the agent is a program."""
        has_schema = self.blueprint.get("parameters_schema") is not None
        if self.blueprint.get("type") == "procedural" or not (has_schema or self.parameters["prompt"]):
            return None
        return text_for_agent(self.parameters, has_schema=has_schema)

    def with_demand(self, prompt: str, contract: OutputContract) -> str:
        return enrich(prompt, contract.format)
