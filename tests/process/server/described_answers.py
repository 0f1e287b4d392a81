"""Each answer of the API against the server's own OpenAPI document."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import jsonschema_rs

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
METHODS: Final = ("get", "post", "put", "patch", "delete")


@dataclass
class DescribedAnswers:
    """Checks answers. Unknown fields are errors here, while clients ignore them: else a shape could miss some."""

    document: dict[str, Any] = field(default_factory=dict)
    _validators: dict[tuple[str, str, int], jsonschema_rs.Draft202012Validator] = field(default_factory=dict)

    def check(self, answer: httpx.Response) -> None:
        """Fail if an answer in JSON is not what the document says of its call, or of refusals."""
        request, kind = answer.request, answer.headers.get("content-type", "")
        assert answer.status_code < 400 or kind != JSON, f"{answer.status_code} of {request.url} is no {PROBLEM}"
        if answer.status_code == 204 or kind not in {JSON, PROBLEM} or request.url.path == "/openapi.json":
            return
        if not self.document and not self._load(request):
            return
        path = next((one for one in self._paths() if _pattern(one).fullmatch(request.url.raw_path.decode())), None)
        if path is None or request.method.lower() not in self.document["paths"][path]:
            return
        key = (path, request.method.lower(), answer.status_code)
        if key not in self._validators:
            responses = self.document["paths"][path][key[1]]["responses"]
            status = str(answer.status_code) if answer.is_success else "404"  # all refusals have one shape
            assert status in responses, f"{key} is not described"
            schema = responses[status]["content"][kind]["schema"]
            rules = {**schema, "components": self.document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(rules, validate_formats=True)
        answer.read()
        problems = [
            f"{list(one.instance_path)}: {one.message}" for one in self._validators[key].iter_errors(answer.json())
        ]
        assert not problems, f"{key}: {problems[:5]}"

    def _load(self, request: httpx.Request) -> bool:
        """Return whether the sender of a request may read the document."""
        token = {"Authorization": request.headers["Authorization"]} if "Authorization" in request.headers else {}
        found = httpx.get(request.url.join("/openapi.json"), headers=token, trust_env=False, timeout=60)
        if found.status_code == 401:
            return False
        self.document = found.raise_for_status().json()
        close(self.document["components"]["schemas"])
        return True

    def _paths(self) -> Iterator[str]:
        """Return the paths, those without parameters first: `/runs/batch` is no run."""
        yield from sorted(self.document["paths"], key=lambda path: path.count("{"))


def successes(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each operation with the schema of each of its successful answers in JSON."""
    for path in document["paths"].values():
        for operation in (path[method] for method in METHODS if method in path):
            for status, answer in operation["responses"].items():
                if status.startswith("2") and JSON in answer.get("content", {}):
                    yield operation["operationId"], answer["content"][JSON]["schema"]


def close(schema: Any) -> None:
    """Allow no further fields in objects whose fields are listed."""
    if isinstance(schema, list):
        for one in schema:
            close(one)
    elif isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        for name, one in schema.items():
            if name != "not":
                close(one)


def _pattern(path: str) -> re.Pattern[str]:
    """Return what matches the address of a request with a path of the document."""
    parts = re.split(r"\{[^}]*\}", path)
    return re.compile("[^/?]+".join(map(re.escape, parts)) + r"(\?.*)?")
