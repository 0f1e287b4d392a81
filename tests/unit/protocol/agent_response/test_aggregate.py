"""The findings of several agents are one list."""

from ao_protocol.agent_response import (
    AgentResponse,
    AggregatedResponse,
    Finding,
    MergedFile,
    MergedFinding,
    OwnPart,
    RelevantFile,
    Results,
    Statement,
    aggregate,
)


def finding(priority: str, location: str, issue: str, rationale: str = "", suggestion: str | None = None) -> Finding:
    return Finding.model_validate(
        {"priority": priority, "location": location, "issue": issue, "rationale": rationale, "suggestion": suggestion}
    )


def test_duplicates_are_joined_by_priority_and_name_their_agents() -> None:
    security = AgentResponse(
        agent="security",
        summary="s1",
        findings=[finding("P3", "b.py:1", "Typo"), finding("P2", "a.py:1", "SQL injection", "raw input", "bind")],
        results=Results(files=[RelevantFile(path="./a.py", relevance="query")], answer="yes"),
    )
    quality = AgentResponse(
        agent="quality",
        summary="s2",
        findings=[
            finding("P1", "./a.py:1", "`SQL  Injection`.", "no bind"),
            finding("P1", "a.py:2", "SQL injection"),
            finding("P1", "a.py:1", "sql injection", "raw input"),
        ],
        results=Results(files=[RelevantFile(path="a.py", relevance="query")]),
        error="half done",
    )
    assert aggregate([security, quality]) == AggregatedResponse(
        summaries=[Statement(agent="security", text="s1"), Statement(agent="quality", text="s2")],
        findings=[
            MergedFinding(
                priority="P1",
                location="a.py:1",
                issue="SQL injection",
                rationale="raw input\nno bind",
                suggestion="bind",
                agents=["security", "quality"],
            ),
            MergedFinding(
                priority="P1",
                location="a.py:2",
                issue="SQL injection",
                rationale="",
                suggestion=None,
                agents=["quality"],
            ),
            MergedFinding(
                priority="P3", location="b.py:1", issue="Typo", rationale="", suggestion=None, agents=["security"]
            ),
        ],
        files=[MergedFile(path="./a.py", relevance="query", agents=["security", "quality"])],
        answers=[Statement(agent="security", text="yes")],
        errors=[Statement(agent="quality", text="half done")],
    )


def test_spellings_of_one_line_are_one_location() -> None:
    places = ["./a.ts:10", "a.ts#L10", "a.ts:L10", "a.ts#10", "`a.ts:10`"]
    given = [AgentResponse(agent=place, summary="s", findings=[finding("P2", place, "Race")]) for place in places]
    (merged,) = aggregate(given).findings
    assert (merged.location, merged.agents) == ("./a.ts:10", places)


def test_what_only_one_agent_says_is_kept_with_its_name() -> None:
    responses = [
        AgentResponse(agent="a", summary="s", agent_specific={"choice": "x"}),
        AgentResponse(agent="b", summary="s"),
    ]
    assert aggregate(responses).agent_specific == [OwnPart(agent="a", value={"choice": "x"})]


def test_nothing_is_aggregated_to_nothing() -> None:
    assert aggregate([]) == AggregatedResponse(summaries=[], findings=[], files=[], answers=[], errors=[])
