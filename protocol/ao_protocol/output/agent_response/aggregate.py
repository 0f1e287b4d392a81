"""The responses of several agents as one: findings by priority, each once, with the agents that reported it."""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ao_protocol.output.agent_response.model import PRIORITIES, AgentResponse, Finding, Priority, RelevantFile
from ao_protocol.wire import JsonObject, WireModel

_NOISE: Final = re.compile(r"[\s`*\"'“”‘’.,;:!?]+")
_LINE_MARK: Final = re.compile(r"(?:#L?|:L)(?=[0-9])")

T = TypeVar("T")


class MergedFinding(WireModel):
    """A finding and who reported it. Its priority is the highest it was given; its texts are all that were said."""

    priority: Priority
    location: str
    issue: str
    rationale: str
    suggestion: str | None
    agents: list[str]


class MergedFile(WireModel):
    """A file and who named it."""

    path: str
    relevance: str
    agents: list[str]


class Statement(WireModel):
    """What one agent said: its summary, its answer or its error."""

    agent: str
    text: str


class OwnPart(WireModel):
    """What only one agent has to say: its `agent_specific`, as it was."""

    agent: str
    value: JsonObject


class AggregatedResponse(WireModel):
    """What all agents said together. Findings stand by priority, then as they came; nothing else is reordered."""

    summaries: list[Statement]
    findings: list[MergedFinding]
    files: list[MergedFile]
    answers: list[Statement]
    errors: list[Statement]
    agent_specific: list[OwnPart] = []


def aggregate(responses: Iterable[AgentResponse]) -> AggregatedResponse:
    """Merge responses.

    Findings are the same where location and issue are, apart from case, blanks and punctuation in the issue and the
    spelling of the location (`./a.ts#L10` is `a.ts:10`); one without a location is the same only as another without.
    Nothing is lost but the wordings of an issue that differ in no more than that.
    """
    given = list(responses)
    findings = [(response.agent, finding) for response in given for finding in response.findings]
    files = [(response.agent, file) for response in given if response.results for file in response.results.files]
    merged = [_merged_finding(same) for same in _grouped(findings, _identity)]
    return AggregatedResponse(
        summaries=[Statement(agent=response.agent, text=response.summary) for response in given],
        findings=sorted(merged, key=lambda finding: PRIORITIES.index(finding.priority)),
        files=[_merged_file(same) for same in _grouped(files, lambda file: file.path.removeprefix("./"))],
        answers=[
            Statement(agent=response.agent, text=response.results.answer)
            for response in given
            if response.results and response.results.answer
        ],
        errors=[Statement(agent=response.agent, text=response.error) for response in given if response.error],
        agent_specific=[
            OwnPart(agent=response.agent, value=response.agent_specific)
            for response in given
            if response.agent_specific is not None
        ],
    )


def _grouped(reported: list[tuple[str, T]], identity: Callable[[T], object]) -> list[list[tuple[str, T]]]:
    groups: dict[object, list[tuple[str, T]]] = {}
    for agent, item in reported:
        groups.setdefault(identity(item), []).append((agent, item))
    return list(groups.values())


def _identity(finding: Finding) -> tuple[str, str]:
    location = _LINE_MARK.sub(":", finding.location.strip("`").removeprefix("./"))
    return location, _NOISE.sub(" ", finding.issue).strip().casefold()


def _merged_finding(same: list[tuple[str, Finding]]) -> MergedFinding:
    findings = [finding for _, finding in same]
    return MergedFinding(
        priority=min((finding.priority for finding in findings), key=PRIORITIES.index),
        location=findings[0].location,
        issue=findings[0].issue,
        rationale=_joined(finding.rationale for finding in findings),
        suggestion=_joined(finding.suggestion or "" for finding in findings) or None,
        agents=_agents(same),
    )


def _merged_file(same: list[tuple[str, RelevantFile]]) -> MergedFile:
    return MergedFile(path=same[0][1].path, relevance=_joined(file.relevance for _, file in same), agents=_agents(same))


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))


def _agents(same: list[tuple[str, T]]) -> list[str]:
    return list(dict.fromkeys(agent for agent, _ in same))
