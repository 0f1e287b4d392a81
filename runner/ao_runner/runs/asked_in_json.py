"""The fields of a request for a run in JSON."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ao_protocol.attachments import Attachments
from ao_protocol.wire import JsonObject, Name
from ao_runner.profiles import Duration
from ao_runner.runs.options_schema import OPTIONS


class AskedInJson(BaseModel):
    """What every door that reads JSON takes by the same names: the HTTP API, MCP, and the lines of a pipe."""

    model_config = ConfigDict(defer_build=True)

    profile: Name | None = Field(None, description="Profile or executor that performs the run.")
    timeout_seconds: Duration | None = Field(None, description="The most that the run may take.")
    metadata: JsonObject = Field({}, description="Passed to the executor.")
    labels: dict[str, str] = Field({}, description="Short texts by name, by which runs are found.")
    attachments: Attachments = Field([], description="Files: `data` in base64, or the `path` on the worker's host.")
    output_schema: JsonObject | None = Field(None, description="JSON Schema of the answer.")
    output_schema_name: str | None = Field(None, description="A named schema, instead of output_schema.")
    output_schema_options: JsonObject | None = Field(
        None, description="How the schema is enforced.", json_schema_extra={"properties": OPTIONS}
    )
    no_schema: bool = Field(False, description="Ask for free text, although the agent has a default schema.")
    keep_rejected: bool = Field(True, description="Store answers that do not fit the schema.")

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a `NewRun` that these are."""
        said = {name: getattr(self, name) for name in AskedInJson.model_fields}
        attachments = tuple(one.model_dump(exclude_none=True) for one in self.attachments)
        return said | {"output_schema_options": self.output_schema_options or {}, "attachments": attachments}
