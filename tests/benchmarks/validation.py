"""What a verdict costs, beside both libraries, and that no hazard grows faster than its size.

Run `python tests/benchmarks/validation.py`; it prints JSON. Times are the best of several, in milliseconds.
"""

import gc
import json
import time
from collections.abc import Callable
from typing import Any, Final

import jsonschema
import jsonschema_rs

from ao_protocol.contracts import InvalidSchema, validate, validator_for

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["files_analyzed", "issues"],
    "properties": {
        "files_analyzed": {"type": "integer"},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["file", "severity", "message"],
                "properties": {
                    "file": {"type": "string"},
                    "severity": {"enum": ["low", "medium", "high"]},
                    "message": {"type": "string"},
                    "line": {"type": "integer", "minimum": 1},
                    "score": {"type": "number"},
                },
            },
        },
    },
}
SIZES: Final = {"small": 3, "100 KB": 800, "1 MB": 8_000, "5 MB": 40_000}


def report(issues: int) -> dict[str, Any]:
    return {
        "files_analyzed": issues,
        "issues": [
            {"file": f"src/a{i}.py", "severity": "high", "message": "x" * 40, "line": i + 1, "score": 0.5}
            for i in range(issues)
        ],
    }


def milliseconds(work: Callable[[], object], repeat: int = 5) -> float:
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return round(best * 1000, 4)


def compared(value: object) -> dict[str, float]:
    ours = validator_for(SCHEMA)
    plain = jsonschema.Draft7Validator(SCHEMA)
    rust = jsonschema_rs.Draft7Validator(SCHEMA)
    times = {
        "is_valid": milliseconds(lambda: ours.is_valid(value)),
        "validate": milliseconds(lambda: validate(value, SCHEMA)),
        "jsonschema": milliseconds(lambda: list(plain.iter_errors(value)), repeat=1),
        "jsonschema_rs is_valid": milliseconds(lambda: rust.is_valid(value)),
        "jsonschema_rs errors": milliseconds(lambda: list(rust.iter_errors(value)), repeat=2),
    }
    return times | {
        "jsonschema / validate": round(times["jsonschema"] / times["validate"], 1),
        "is_valid / jsonschema_rs": round(times["is_valid"] / times["jsonschema_rs is_valid"], 1),
    }


def sizes() -> dict[str, Any]:
    measured = {}
    for name, issues in SIZES.items():
        last_wrong, all_wrong = report(issues), report(issues)
        last_wrong["issues"][-1]["severity"] = "critical"
        for issue in all_wrong["issues"]:
            issue["severity"] = "critical"
        measured[name] = {
            "valid": compared(report(issues)),
            "last item wrong": compared(last_wrong),
            "every item wrong": compared(all_wrong),
        }
    return measured


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/definitions/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/definitions/d0", "definitions": {**definitions, f"d{levels}": {"type": "string"}}}


def judged(value: object, schema: dict[str, Any]) -> str:
    try:
        return f"{len(validate(value, schema))} problems"
    except InvalidSchema as error:
        return f"refused: {error.message}"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def hazards() -> dict[str, Any]:
    backtracking = {"items": {"pattern": r"^(?=a)((a|aa)+)+\1$"}}
    cases: dict[str, tuple[object, dict[str, Any]]] = {
        "uniqueItems, 4,000 objects": ([*({"a": i} for i in range(4_000)), {"a": 0}], {"uniqueItems": True}),
        "uniqueItems, 40,000 objects": ([*({"a": i} for i in range(40_000)), {"a": 0}], {"uniqueItems": True}),
        "^(a+)+$ on 30 characters": ("a" * 30 + "!", {"pattern": "^(a+)+$"}),
        "^(a+)+$ on 100,000 characters": ("a" * 100_000 + "!", {"pattern": "^(a+)+$"}),
        "back-reference, 1,000 texts": (["a" * 40 + "!"] * 1_000, backtracking),
        "back-reference, 10,000 texts": (["a" * 40 + "!"] * 10_000, backtracking),
        "anyOf of references, 12 levels": (1, doubling(12)),
        "anyOf of references, 60 levels": (1, doubling(60)),
        "a reference to itself": (1, {"$ref": "#"}),
        "100,000 levels": (nested(100_000), {"items": {"$ref": "#"}}),
        "2,500,000 wrong items": ([0] * 2_500_000, {"items": {"type": "string"}}),
        "contains, 2,500,000 items": ([0] * 2_500_000, {"contains": {"type": "string"}}),
        "500,000 extra names": ({str(i): 0 for i in range(500_000)}, {"additionalProperties": False}),
    }
    return {
        name: {"milliseconds": milliseconds(lambda: judged(*case), repeat=1), "outcome": judged(*case)}  # noqa: B023  # called at once
        for name, case in cases.items()
    }


if __name__ == "__main__":
    print(json.dumps({"sizes": sizes(), "hazards": hazards()}, indent=2))
