"""Codecs with a fault each: `python broken_codec.py FAULT`.

What is right they take from the vectors themselves, so that they start fast; only the fault is theirs.
"""

import json
import os
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

from ao_conformance.codec_suite import load_questions

Document = dict[str, Any]
Questions = Iterator[Document]

RIGHT = {question.id: question.source for question in load_questions()}
NOT_ANSWERS = {"title", "requirements", "kind", "speaks"}


def right_answer(question: Document) -> Document:
    asked = set(question) - {"id"}
    answer = {name: value for name, value in RIGHT[question["id"]].items() if name not in NOT_ANSWERS | asked}
    if "supported" in answer.get("details", {}):
        answer["details"] = answer["details"] | {"supported": ["3.0", "2.2", "2.1"]}
    return answer


def speaks_one_version(question: Document, answer: Document) -> Document:
    if RIGHT[question["id"]].get("speaks"):
        return {"id": question["id"], "valid": False, "error": "unsupported_schema_version"}
    if question["kind"] == "upgrade":
        return {"id": question["id"], "unsupported": True}
    return answer | {"details": answer["details"] | {"supported": ["3.0"]}} if answer.get("details") else answer


def names_what_contains_it(question: Document, answer: Document) -> Document:
    paths = answer.get("problem_at")
    return answer | {"problem_at": ["$", *paths]} if paths else answer


def accepts_duplicate_keys(question: Document, answer: Document) -> Document:
    return {"id": question["id"], "valid": True} if answer.get("reason") == "duplicate_key" else answer


def names_no_reason(question: Document, answer: Document) -> Document:
    return {name: value for name, value in answer.items() if name != "reason"}


def keeps_cr(question: Document, answer: Document) -> Document:
    if question["kind"] != "framing":
        return answer
    whole = b"".join(map(b64decode, question["chunks_base64"])).split(b"\n")[:-1]
    return answer | {"lines": [{"base64": b64encode(line).decode()} for line in whole]}


def keeps_lone_surrogates(question: Document, answer: Document) -> Document:
    return answer | {"read_as": json.loads(question["line"])} if "\ufffd" in str(answer.get("read_as")) else answer


def sorts_supported_versions(question: Document, answer: Document) -> Document:
    details = answer.get("details", {})
    if "supported" not in details:
        return answer
    return answer | {"details": details | {"supported": sorted(details["supported"])}}


def overlooks_a_problem(question: Document, answer: Document) -> Document:
    if question["kind"] != "event" or "problem_at" not in answer:
        return answer
    return answer | {"problem_at": answer["problem_at"][1:]}


def loses_the_fault(question: Document, answer: Document) -> Document:
    return {name: value for name, value in answer.items() if name != "fault"}


def blames_the_event_before(question: Document, answer: Document) -> Document:
    return answer | {"fault_at": answer["fault_at"] - 1} if "fault_at" in answer else answer


def ignores_cancel(question: Document, answer: Document) -> Document:
    return answer | {"ignored": True} if question["kind"] == "control_line" and answer["valid"] else answer


def tells_exit_codes_as_text(question: Document, answer: Document) -> Document:
    return answer | {"exit_code": str(answer["exit_code"])} if "exit_code" in answer else answer


def finds_text_and_problems(question: Document, answer: Document) -> Document:
    return {"text": "", "problem_at": ["$"]} | answer if question["kind"] == "inputs" else answer


def drops_the_contract(question: Document, answer: Document) -> Document:
    return answer | {"holds": None} if "holds" in answer else answer


def trims_the_prompt(question: Document, answer: Document) -> Document:
    return answer | {"enriched": answer["enriched"].strip() + "\n"} if "enriched" in answer else answer


def keeps_the_old_name(question: Document, answer: Document) -> Document:
    return answer | {"upgraded": question["document"]} if "upgraded" in answer else answer


def counts_true_as_one(question: Document, answer: Document) -> Document:
    return answer | {"valid": int(answer["valid"])} if question["kind"] == "description" else answer


WRONG: dict[str, Callable[[Document, Document], Document]] = {
    wrong.__name__: wrong
    for wrong in (
        accepts_duplicate_keys,
        names_no_reason,
        keeps_cr,
        keeps_lone_surrogates,
        sorts_supported_versions,
        overlooks_a_problem,
        loses_the_fault,
        blames_the_event_before,
        ignores_cancel,
        tells_exit_codes_as_text,
        finds_text_and_problems,
        drops_the_contract,
        trims_the_prompt,
        keeps_the_old_name,
        counts_true_as_one,
        speaks_one_version,
        names_what_contains_it,
    )
}


def answers_in_reverse(questions: Questions) -> Iterator[Document]:
    yield from reversed([right_answer(question) for question in questions])


def answers_at_length(questions: Questions) -> Iterator[Document]:
    for question in questions:
        yield right_answer(question) | {"padding": "x" * 4_000}


def supports_nothing(questions: Questions) -> Iterator[Document]:
    for question in questions:
        yield {"id": question["id"], "unsupported": True}


def answers_twice(questions: Questions) -> Iterator[Document]:
    for question in questions:
        yield from [right_answer(question)] * (2 if question["id"] == "line-object" else 1)


def leaves_one_out(questions: Questions) -> Iterator[Document]:
    for question in questions:
        if question["id"] != "line-object":
            yield right_answer(question)


def answers_what_nobody_asked(questions: Questions) -> Iterator[Document]:
    yield from map(right_answer, questions)
    yield {"id": "line-9", "valid": True}


def prints_a_banner(questions: Questions) -> Iterator[Document]:
    sys.stdout.write("Codec 1.0\n")
    yield from map(right_answer, questions)


def crashes_in_the_middle(questions: Questions) -> Iterator[Document]:
    for question in questions:
        if question["id"] == "line-1000-levels":
            sys.stderr.write("stack smashed\n")
            sys.stderr.flush()
            os._exit(3)
        yield right_answer(question)


def stops_reading(questions: Questions) -> Iterator[Document]:
    time.sleep(60)
    yield from map(right_answer, questions)


def never_ends(questions: Questions) -> Iterator[Document]:
    yield from map(right_answer, questions)
    time.sleep(60)


def floods_with_lines(questions: Questions) -> Iterator[Document]:
    first = right_answer(next(questions))
    while True:
        yield first


def floods_without_a_line_end(questions: Questions) -> Iterator[Document]:
    yield right_answer(next(questions))
    while True:
        sys.stdout.write("x" * 65_536)


MANNERS: dict[str, Callable[[Questions], Iterator[Document]]] = {
    manner.__name__: manner
    for manner in (
        answers_in_reverse,
        answers_at_length,
        supports_nothing,
        answers_twice,
        leaves_one_out,
        answers_what_nobody_asked,
        prints_a_banner,
        crashes_in_the_middle,
        stops_reading,
        never_ends,
        floods_with_lines,
        floods_without_a_line_end,
    )
}


def main(fault: str) -> None:
    questions = (json.loads(line) for line in sys.stdin.buffer)
    if fault in MANNERS:
        answers = MANNERS[fault](questions)
    else:
        answers = (WRONG[fault](question, right_answer(question)) for question in questions)
    for answer in answers:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
