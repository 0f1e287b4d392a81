"""What reading and writing a response costs in each form, beside `json.loads` of the same response.

Run `python tests/benchmarks/agent_response.py`; it prints JSON. The actions of a size are timed in turn, so that a
machine that is slow for a while is slow for all. Times are in milliseconds, the least and the median; `ratio` is to the
yardstick, least to least. Then texts of three megabytes, honest and hostile: how each ends, in which time and memory,
each in a process of its own (`peak_mb` is all of it, with the text and 45 MB for Python and its libraries; Linux only).
"""

import gc
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from ao_protocol.agent_response import (
    AgentResponse,
    AgentResponseError,
    Finding,
    Form,
    RelevantFile,
    Results,
    parse_agent_response,
    write_response,
)

SIZES: Final = {"1 KB": (1_000, 50, 100), "100 KB": (100_000, 30, 2), "2 MB": (2_000_000, 9, 1)}
"""About how many characters the JSON form has, how often each action is timed, and how often it is done each time."""
MEGABYTES: Final = 3 * 2**20
RATIONALE: Final = "The value reaches the query as it came, so whoever writes it reads & changes the table (x < y)."


def main() -> None:
    """Print the figures as JSON, or, in a child, those of one text."""
    if len(sys.argv) > 1:
        print(json.dumps(_measure_one(THREE_MEGABYTES[sys.argv[1]]())))
        return
    figures: dict[str, Any] = {"cost": {name: _compare(*size) for name, size in SIZES.items()}, "three megabytes": {}}
    for name in THREE_MEGABYTES:
        child = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        figures["three megabytes"][name] = json.loads(child.stdout)
    print(json.dumps(figures, indent=2))


def _response(characters: int) -> AgentResponse:
    finding = Finding(
        priority="P2",
        location="src/api/users.ts:45-47",
        issue="Query is not bound",
        rationale=RATIONALE,
        suggestion="Bind",
    )
    each = len(finding.model_dump_json())
    return AgentResponse(
        agent="security-sentinel",
        summary="Reviewed the queries",
        findings=[finding] * max(1, characters // each - 2),
        results=Results(files=[RelevantFile(path="src/api/users.ts", relevance="Builds it")], answer="Not yet safe"),
        agent_specific={"confidence": 0.9},
    )


def _lines_of(response: AgentResponse) -> str:
    return "Findings:\n" + "".join(
        f"- [{each.priority}] {each.issue} — {each.location} — {each.rationale}\n" for each in response.findings
    )


def _compare(characters: int, repetitions: int, batch: int) -> dict[str, Any]:
    response = _response(characters)
    written = {form: write_response(response, form) for form in Form}
    actions: dict[str, Callable[[], object]] = {"json.loads": partial(json.loads, written[Form.JSON])}
    actions |= {f"read {form}": partial(parse_agent_response, text) for form, text in written.items()}
    actions["read lines of findings"] = partial(parse_agent_response, _lines_of(response))
    actions |= {f"write {form}": partial(write_response, response, form) for form in Form}
    times = _timed_in_turn(actions, repetitions, batch)
    yardstick = min(times["json.loads"])
    return {"characters": {form.value: len(text) for form, text in written.items()}} | {
        name: {
            "least_ms": round(min(taken), 4),
            "median_ms": round(statistics.median(taken), 4),
            "ratio": round(min(taken) / yardstick, 1),
        }
        for name, taken in times.items()
    }


def _timed_in_turn(actions: dict[str, Callable[[], object]], repetitions: int, batch: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repetitions):
        for name, action in actions.items():
            gc.collect()
            begin = time.perf_counter()
            for _ in range(batch):
                action()
            times[name].append((time.perf_counter() - begin) * 1000 / batch)
    return times


def _measure_one(text: str) -> dict[str, Any]:
    begin = time.perf_counter()
    try:
        outcome = f"read, {len(parse_agent_response(text).findings)} findings"
    except AgentResponseError as error:
        outcome = f"{type(error).__name__}: {error.expected}"[:80]
    seconds = round(time.perf_counter() - begin, 2)
    return {"outcome": outcome, "seconds": seconds, "peak_mb": _peak_megabytes()}


def _peak_megabytes() -> int:
    # What getrusage says of a child begins with the size of its parent.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return round(int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024)


def _xml(summary: str, rest: str = "") -> str:
    return f'<agent_response agent="a"><summary>{summary}</summary>{rest}</agent_response>'


def _times(piece: str) -> str:
    return piece * (MEGABYTES // len(piece))


THREE_MEGABYTES: Final[dict[str, Callable[[], str]]] = {
    "xml, findings": lambda: write_response(_response(MEGABYTES), Form.XML),
    "json, findings": lambda: write_response(_response(MEGABYTES), Form.JSON),
    "markdown, findings": lambda: write_response(_response(MEGABYTES), Form.MARKDOWN),
    "lines of findings": lambda: _times("- [P1] An issue — a/b.py:1 — Because it matters\n"),
    "lines without a place": lambda: _times("- [P1] An issue - of - this and that - or so, e.g. a. b\n"),
    "one finding of hyphens": lambda: f"- [P1] a/b {_times('- ')}",
    "one finding of brackets": lambda: f"- [P1] {_times('(a.ts:1) ')}",
    "xml, one text": lambda: _xml(_times("x &amp; y ")),
    "xml, more elements than are read": lambda: _xml("s", f"<agent_specific>{_times('<a/>')}</agent_specific>"),
    "xml, levels": lambda: _xml(_times("<a>")),
    "xml, roots": lambda: _times("<agent_response>"),
    "xml, ampersands": lambda: _xml(_times("&")),
    "xml, eight broken elements": lambda: _xml(f"&& <file>{'x' * (MEGABYTES // 8)}") * 8,
    "entities": lambda: "<!DOCTYPE a [" + _times("<!ENTITY a '&a;'>"),
    "braces": lambda: '"summary"' + _times("{'"),
    "fences": lambda: _times("```markdown\n---\nagent: a\n---\n"),
    "plain text": lambda: _times("x"),
}


if __name__ == "__main__":
    main()
