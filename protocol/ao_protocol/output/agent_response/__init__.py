"""One response format for many agents: its model, its three forms, the older ways of answering, and their sum."""

from ao_protocol.output.agent_response.aggregate import (
    AggregatedResponse,
    MergedFile,
    MergedFinding,
    OwnPart,
    Statement,
    aggregate,
)
from ao_protocol.output.agent_response.forms import (
    Reading,
    convert,
    examine_response,
    instructions_for,
    parse_agent_response,
    read_response,
    write_response,
)
from ao_protocol.output.agent_response.model import (
    CURRENT_VERSION,
    UNKNOWN_AGENT,
    AgentResponse,
    Finding,
    Form,
    Priority,
    RelevantFile,
    Results,
)
from ao_protocol.output.agent_response.notes import Remark, RemarkKind
from ao_protocol.output.agent_response.published import response_schema, response_xsd
from ao_protocol.output.agent_response.refusals import (
    AgentResponseError,
    InvalidResponse,
    NoResponseFound,
    NotWellFormed,
    ResponseTooDeep,
    ResponseTooLarge,
    UnexpectedContent,
    UnsafeXml,
    UnsupportedResponseVersion,
)

__all__ = [
    "CURRENT_VERSION",
    "UNKNOWN_AGENT",
    "AgentResponse",
    "AgentResponseError",
    "AggregatedResponse",
    "Finding",
    "Form",
    "InvalidResponse",
    "MergedFile",
    "MergedFinding",
    "NoResponseFound",
    "NotWellFormed",
    "OwnPart",
    "Priority",
    "Reading",
    "RelevantFile",
    "Remark",
    "RemarkKind",
    "ResponseTooDeep",
    "ResponseTooLarge",
    "Results",
    "Statement",
    "UnexpectedContent",
    "UnsafeXml",
    "UnsupportedResponseVersion",
    "aggregate",
    "convert",
    "examine_response",
    "instructions_for",
    "parse_agent_response",
    "read_response",
    "response_schema",
    "response_xsd",
    "write_response",
]
