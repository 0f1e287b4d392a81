"""Blueprints: what an agent designer writes (SPEC 4.2)."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from ao_protocol.wire import JsonObject, Name, WireModel


class StdioMcpServer(WireModel):
    """An MCP server that is a program, spoken to over its stdin and stdout."""

    type: Literal["stdio"] = "stdio"
    command: Name
    args: list[str] = []
    env: dict[str, str] = {}
    required: bool = True
    """Whether a run fails where the server is not available."""


class RemoteMcpServer(WireModel):
    """An MCP server behind a URL."""

    type: Literal["http", "sse"]
    url: Annotated[str, Field(pattern=r"^https?://")]
    headers: dict[str, str] = {}
    required: bool = True


def _mcp_server_kind(server: Any) -> str:  # noqa: ANN401  # pydantic hands over whatever stands there
    if isinstance(server, StdioMcpServer | RemoteMcpServer):
        return "remote" if isinstance(server, RemoteMcpServer) else "stdio"
    kind = server.get("type", "stdio") if isinstance(server, dict) else "stdio"
    return "stdio" if kind == "stdio" else "remote"


McpServer: TypeAlias = Annotated[
    Annotated[StdioMcpServer, Tag("stdio")] | Annotated[RemoteMcpServer, Tag("remote")],
    Discriminator(_mcp_server_kind),
]


class AgentResponseDemand(WireModel):
    """The agent answers with the response that many agents share, in one of its forms (SPEC 9.8)."""

    type: Literal["agent_response"]
    form: Literal["xml", "json", "markdown"] = "xml"


class Blueprint(WireModel):
    """An agent: who it is, what it takes and what it gives.

    `output_schema` and `output_format` are authoritative: no caller overrides them. `default_output_schema` holds
    where neither they nor a caller say otherwise. `command` is for agents of type `procedural`.
    """

    name: Name
    description: str | None = None
    type: Literal["autonomous", "procedural"] = "autonomous"
    system_prompt: str | None = None
    command: str | None = None
    parameters_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    output_format: AgentResponseDemand | None = None
    default_output_schema: JsonObject | None = None
    default_output_schema_options: JsonObject | None = None
    mcp_servers: dict[str, McpServer] | None = None

    @model_validator(mode="after")
    def _demands_one_answer(self) -> Self:
        if self.output_schema is not None and self.output_format is not None:
            raise ValueError("output_schema and output_format contradict each other; expected one of them")
        return self
