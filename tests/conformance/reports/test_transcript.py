"""The part of a transcript that explains a finding."""

from ao_conformance.reports.transcript_rows import Row, excerpt, transcript_rows
from ao_conformance.verdict import TranscriptEntry


def lines_of_stdout(count: int, marked_line: int | None = None) -> list[Row]:
    entries = tuple(TranscriptEntry(0.0, "stdout", str(number)) for number in range(1, count + 1))
    return transcript_rows(entries, marked_line)


def test_only_lines_of_the_judged_process_on_stdout_have_numbers() -> None:
    transcript = (
        TranscriptEntry(0.0, "stdout", "of the one before", 1),
        TranscriptEntry(0.1, "stderr", "Traceback\nValueError\n"),
        TranscriptEntry(0.2, "stdout", "first"),
        TranscriptEntry(0.3, "stdout", "second"),
    )

    assert transcript_rows(transcript, 2) == [
        Row(0.0, "earlier out", "of the one before"),
        Row(0.1, "err", "Traceback"),
        Row(0.1, "err", "ValueError"),
        Row(0.2, "out", "first", 1),
        Row(0.3, "out", "second", 2, marked=True),
    ]


def test_an_excerpt_is_around_the_marked_line_and_holds_the_end() -> None:
    rows = excerpt(lines_of_stdout(20, 10), 6)

    assert [(row.text, row.left_out) for row in rows] == [
        ("8", 7),
        ("9", 0),
        ("10", 0),
        ("11", 0),
        ("12", 0),
        ("20", 7),
    ]


def test_an_excerpt_without_a_marked_line_is_the_end() -> None:
    assert [(row.text, row.left_out) for row in excerpt(lines_of_stdout(20), 3)] == [("18", 17), ("19", 0), ("20", 0)]


def test_of_a_long_stderr_the_beginning_and_the_end_are_shown() -> None:
    said = "\n".join(str(number) for number in range(1, 21))
    transcript = (
        TranscriptEntry(0.0, "start", "x"),
        TranscriptEntry(0.1, "stderr", said),
        TranscriptEntry(1, "exit", "1"),
    )

    rows = excerpt(transcript_rows(transcript), 7)

    assert [(row.text, row.left_out) for row in rows] == [
        ("x", 0),
        ("1", 0),
        ("2", 0),
        ("3", 0),
        ("19", 15),
        ("20", 0),
        ("1", 0),
    ]


def test_a_short_transcript_is_left_whole() -> None:
    assert excerpt(lines_of_stdout(3), 3) == lines_of_stdout(3)
