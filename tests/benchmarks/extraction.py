"""What extraction costs beside `json.loads` of the same value, and that no text grows faster than its size.

Run `python tests/benchmarks/extraction.py`; it prints JSON. Times are the best of several, in milliseconds.
`ratio` is to `json.loads` of the value in the text; `growth` is the time at 500 KB over the time at 100 KB,
so that 5 is linear. JSON with other text around it is looked for in at most a mebibyte.
"""

import gc
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ao_protocol.extraction import NoJsonFound, extract_json

SIZES: Final = {"20 KB": 20_000, "100 KB": 100_000, "500 KB": 500_000}
PROSE: Final = 'Lorem {x} ipsum (1) dolor "sit" amet, it\'s {a: b} and `c` then ``` inline ``` text.\n'
HOSTILE: Final = (
    *("{", "[", '{"a":', '[{"a":', '{"', "\\", '{"a":"\\', "{a: ", "{'a':1,} ", "[1] ", '{"a":1} '),
    *("```json\n", "```\n1\n", "<think>", "<answer>", "</think>", "`", "<!--", "{/*}", "> {}\n", "}", "~~~ "),
)
REPETITIONS: Final = 5


def main() -> None:
    """Print the figures as JSON."""
    figures: dict[str, Any] = {"answers": {}, "hostile": {}}
    for name, surround in _surroundings().items():
        figures["answers"][name] = _measure_answers(surround)
    for pattern in HOSTILE:
        figures["hostile"][pattern] = _measure_hostile(pattern)
    print(json.dumps(figures, indent=2))


def _surroundings() -> dict[str, Callable[[str], str]]:
    return {
        "whole": lambda text: text,
        "whole, padded": lambda text: f"\ufeff\n{text}\n",
        "fenced": lambda text: f"Here it is:\n```json\n{text}\n```\nDone.",
        "tagged": lambda text: f"<answer>{text}</answer>",
        "in prose": lambda text: f"The result is {text}, as you can see.",
        "behind as much prose": lambda text: PROSE * (len(text) // len(PROSE)) + text,
        "behind thinking": lambda text: f"<think>{PROSE * 100}</think>{text}",
    }


def _document(size: int) -> str:
    item = {"id": 1, "name": "user 1", "tags": ["a", "b{", "]c"], "score": 0.25, "note": 'He said "hi" {x} [y]'}
    return json.dumps({"items": [item] * (size // (len(json.dumps(item)) + 2))})


def _measure_answers(surround: Callable[[str], str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for size_name, size in SIZES.items():
        document = _document(size)
        text = surround(document)
        plain = _best_of(partial(json.loads, document))
        found = _best_of(partial(extract_json, text))
        figures[size_name] = {"loads_ms": plain, "extract_ms": found, "ratio": round(found / plain, 2)}
    figures["growth"] = round(figures["500 KB"]["extract_ms"] / figures["100 KB"]["extract_ms"], 1)
    return figures


def _measure_hostile(pattern: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    for size_name, size in SIZES.items():
        text = pattern * (size // len(pattern))
        figures[size_name] = _best_of(partial(_outcome, text), 1)
    figures["growth"] = round(figures["500 KB"] / max(figures["100 KB"], 0.1), 1)
    return figures


def _outcome(text: str) -> object:
    try:
        return extract_json(text, {"type": "object", "required": ["absent"]}, lenient=True)
    except NoJsonFound as error:
        return error.reason


def _best_of(action: Callable[[], object], repetitions: int = REPETITIONS) -> float:
    times: list[float] = []
    for _ in range(repetitions):
        gc.collect()
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return round(min(times) * 1000, 3)


if __name__ == "__main__":
    main()
