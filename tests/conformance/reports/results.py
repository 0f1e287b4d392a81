"""Results for the tests of reports: one that is small, one with every verdict, and any."""

from collections.abc import Callable
from itertools import cycle

from hypothesis import strategies as st

from ao_conformance.vectors import ProcessVector
from ao_conformance.verdict import Finding, RequirementResult, SuiteResult, TranscriptEntry, VectorResult, Verdict

HOSTILE = (
    "]]>",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></code></pre></details>",
    "<!-- ",
    "&lt;&#x3c;&nbsp;",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\x00\x08\x7f\x85\ufffe\uffff",
    "\ud800 and \udc00",
    "\u202eturned\u2066",
    "a\r\nb\u2028c\vd",
    "````\n```\n# heading\n- item",
    "| a | b |\n| --- | --- |",
    "`code` and `|` and `",
    "[link](javascript:alert(1)) ![image](x) *a* __b__ ~~c~~ $d$ @me",
    "\\",
    " ",
    "x" * 5_000,
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), min_size=1, max_size=30))


def result_of(vector: ProcessVector, verdict: Verdict, reason: str = "", *findings: Finding) -> VectorResult:
    """Return what a published vector showed."""
    return VectorResult(
        vector.id,
        vector.title,
        vector.topic,
        vector.level,
        vector.capability,
        vector.requirements,
        verdict,
        reason,
        findings,
    )


def small_result() -> SuiteResult:
    """Return one requirement that is kept, and one that is not."""
    transcript = (
        TranscriptEntry(0.0, "start", "demo --quiet"),
        TranscriptEntry(0.001, "stdin", '{"schema_version":"4.0"}'),
        TranscriptEntry(0.1, "stdout", '{"event_type":"run_started","seq":1}'),
        TranscriptEntry(0.2, "stdout", '{"event_type":"result","seq":2}'),
        TranscriptEntry(0.25, "exit", "0"),
    )
    finding = Finding("AOX-011", "`failure`, exit 64", "`result`, exit 0", line=2)
    ids = ("AOX-011",)
    refused = VectorResult(
        "other-major",
        "another major is refused",
        "Version",
        "core",
        None,
        ids,
        Verdict.FAIL,
        "",
        (finding,),
        0.25,
        transcript,
        "ao conformance run --vector other-major -- demo --quiet",
        hint="compare the major as a number",
        judged=ids,
    )
    minor = VectorResult(
        "other-minor", "any minor is accepted", "Version", "core", None, ("AOX-012",), Verdict.PASS, seconds=0.5
    )
    rule = "Another major is refused as `unsupported_schema_version`."
    return SuiteResult(
        suite="executor",
        command=("demo", "--quiet"),
        name="demo",
        version="1.2",
        protocol_version="3.0",
        suite_version="0.1.0",
        level="core",
        seed=7,
        repeats=1,
        started_at="2026-11-22T08:00:00Z",
        seconds=0.75,
        description={"schema_versions": ["3.0"]},
        vectors=(refused, minor),
        requirements=(
            RequirementResult(
                "AOX-011",
                "MUST",
                "core",
                "2.2",
                rule,
                "Nobody guesses.",
                Verdict.FAIL,
                (("other-major", finding),),
                ("other-major",),
            ),
            RequirementResult(
                "AOX-012", "MUST", "core", "2.2", "Any minor is accepted.", "", Verdict.PASS, vectors=("other-minor",)
            ),
        ),
    )


def result_with(text: Callable[[], str]) -> SuiteResult:
    """Return a result with every verdict, with known failures, a stale entry and an unstable vector.

    Its texts come from `text`; where two must differ, a letter stands before them.
    """
    shown = [_vector(verdict, text, known=False) for verdict in Verdict] + [_vector(Verdict.FAIL, text, known=True)]
    section = text()
    requirements = [
        RequirementResult(
            f"R{number}{text()}",
            text(),
            text(),
            section,
            text(),
            text(),
            vector.verdict,
            tuple((vector.id, finding) for finding in vector.findings),
            (vector.id,),
            text(),
            vector.known_failing,
        )
        for number, vector in enumerate(shown)
        if vector.verdict is not Verdict.HARNESS_ERROR
    ]
    return SuiteResult(
        suite=text(),
        command=(text(), text()),
        name=text(),
        version=text(),
        protocol_version=text(),
        suite_version=text(),
        level=text(),
        seed=7,
        repeats=2,
        started_at=text(),
        seconds=1.5,
        description={text(): [text(), float("nan"), 10**30]},
        vectors=tuple(shown),
        requirements=tuple(requirements),
        stale=(text(),),
        unstable=(text(),),
    )


def _vector(verdict: Verdict, text: Callable[[], str], *, known: bool) -> VectorResult:
    findings: tuple[Finding, ...] = ()
    requirement = text()
    if verdict in {Verdict.FAIL, Verdict.WARN, Verdict.UNTESTABLE}:
        findings = (
            Finding(requirement, f"A{text()}", text(), verdict, line=2),
            Finding(text(), f"B{text()}", text(), verdict),
        )
    channels = ("start", "stdin", "stdout", "stderr", "stdout", "signal", "exit")
    transcript = [TranscriptEntry(0.01, "stdout", text(), 1)]
    transcript += [TranscriptEntry(number / 10, channel, text()) for number, channel in enumerate(channels)]
    return VectorResult(
        f"{'K' if known else 'V'}{verdict}{text()}",
        text(),
        "one topic",
        text(),
        text(),
        (requirement,),
        verdict,
        text(),
        findings,
        0.125,
        tuple(transcript),
        text(),
        known,
        text(),
        (text(),),
    )


def hostile_results() -> st.SearchStrategy[SuiteResult]:
    """Draw results with any text in any field."""
    return st.lists(TEXTS, min_size=1, max_size=6).map(lambda texts: result_with(cycle(texts).__next__))


def every_verdict() -> SuiteResult:
    """Return a result with every verdict and harmless texts."""
    return result_with(lambda: "word")


@st.composite
def any_verdicts(draw: st.DrawFn) -> SuiteResult:
    """Draw results with any verdicts, whether they fit or not."""
    verdicts = st.lists(st.tuples(st.sampled_from(Verdict), st.booleans()), max_size=3)
    vectors = [
        VectorResult(
            f"v{number}", "", "t", "core", None, (f"r{draw(st.integers(0, 2))}",), verdict, known_failing=known
        )
        for number, (verdict, known) in enumerate(draw(verdicts))
    ]
    names = st.lists(st.sampled_from([vector.id for vector in vectors] or ["gone"]), max_size=2, unique=True)
    requirements = [
        RequirementResult(
            f"r{number}",
            "MUST",
            "core",
            "1",
            "",
            "",
            verdict,
            tuple((name, Finding(f"r{number}", "this", "that")) for name in draw(names)),
            known_failing=known,
        )
        for number, (verdict, known) in enumerate(draw(verdicts))
    ]
    few = st.lists(st.just("entry"), max_size=1).map(tuple)
    return SuiteResult(
        *("executor", ("demo",), "demo", "core", "2026-11-22T08:00:00Z", 1.0),
        vectors=tuple(vectors),
        requirements=tuple(requirements),
        stale=draw(few),
        unstable=draw(few),
    )
