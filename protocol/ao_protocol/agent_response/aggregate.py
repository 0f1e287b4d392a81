"""Aggregation of the responses of several agents: each finding once, by priority, with the agents that reported it."""

import re
from collections.abc import Iterable
from typing import Final

from ao_protocol.agent_response.model import PRIORITIES, AgentResponse, Finding, Priority, RelevantFile
from ao_protocol.wire import JsonObject, WireModel

_NOISE: Final = re.compile(r"[\s`*\"'“”‘’.,;:!?]+")
_LINE_MARK: Final = re.compile(r"(?:#L?|:L)(?=[0-9])")


class MergedFinding(WireModel):
    """A finding and the agents that reported it, with the highest priority and all different texts."""

    priority: Priority
    location: str
    issue: str
    rationale: str
    suggestion: str | None
    agents: list[str]


class MergedFile(WireModel):
    """A file and the agents that named it."""

    path: str
    relevance: str
    agents: list[str]


class Statement(WireModel):
    """The summary, answer or error of one agent."""

    agent: str
    text: str


class OwnPart(WireModel):
    """The `agent_specific` of one agent, unchanged."""

    agent: str
    value: JsonObject


class AggregatedResponse(WireModel):
    """The merged responses. Findings are sorted by priority; everything else is in its original order."""

    summaries: list[Statement]
    findings: list[MergedFinding]
    files: list[MergedFile]
    answers: list[Statement]
    errors: list[Statement]
    agent_specific: list[OwnPart] = []


def aggregate(responses: Iterable[AgentResponse]) -> AggregatedResponse:
    """Return the merged responses.

    Findings are the same if their locations and issues are equal, apart from case, blanks and punctuation in the issue
    and the spelling of the location (`./a.ts#L10` is `a.ts:10`). Only such differences in the wording of an issue are
    lost.
    """
    given = list(responses)
    findings: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    files: dict[str, list[tuple[str, RelevantFile]]] = {}
    for response in given:
        for finding in response.findings:
            location = _LINE_MARK.sub(":", finding.location.strip("`").removeprefix("./"))
            issue = _NOISE.sub(" ", finding.issue).strip().casefold()
            findings.setdefault((location, issue), []).append((response.agent, finding))
        for file in response.results.files if response.results else ():
            files.setdefault(file.path.removeprefix("./"), []).append((response.agent, file))
    merged = [_merged_finding(same) for same in findings.values()]
    return AggregatedResponse(
        summaries=_statements((response.agent, response.summary) for response in given),
        findings=sorted(merged, key=lambda finding: PRIORITIES.index(finding.priority)),
        files=[
            MergedFile(
                path=same[0][1].path, relevance=_joined(file.relevance for _, file in same), agents=_agents(same)
            )
            for same in files.values()
        ],
        answers=_statements((response.agent, response.results.answer) for response in given if response.results),
        errors=_statements((response.agent, response.error) for response in given),
        agent_specific=[
            OwnPart(agent=response.agent, value=response.agent_specific)
            for response in given
            if response.agent_specific is not None
        ],
    )


def _statements(texts: Iterable[tuple[str, str | None]]) -> list[Statement]:
    return [Statement(agent=agent, text=text) for agent, text in texts if text]


def _merged_finding(same: list[tuple[str, Finding]]) -> MergedFinding:
    findings = [finding for _, finding in same]
    return MergedFinding(
        priority=min((finding.priority for finding in findings), key=PRIORITIES.index),
        location=findings[0].location,
        issue=findings[0].issue,
        rationale=_joined(finding.rationale for finding in findings),
        suggestion=_joined(finding.suggestion for finding in findings) or None,
        agents=_agents(same),
    )


def _agents(same: Iterable[tuple[str, object]]) -> list[str]:
    return list(dict.fromkeys(agent for agent, _ in same))


def _joined(texts: Iterable[str | None]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))
