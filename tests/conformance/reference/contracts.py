"""Which output contract a run has, and by which strategy the model is asked for it (SPEC 9.1, 9.6, 9.7)."""

from collections.abc import Mapping
from typing import Any

from description import FORMATS, STRATEGIES
from errors import RunFailed
from invocation import refuse_as_invalid, refuse_capability
from json_schema import is_same, problems_of
from schema_vetting import faults_of

OPTIONS = {
    "type": "object",
    "properties": {
        "max_retries": {"type": "integer", "minimum": 0, "maximum": 10},
        "extract_json": {"type": "boolean"},
        "strict_json_only": {"type": "boolean"},
        "validation_mode": {"enum": ["strict", "lenient"]},
        "strategy": {"type": "string", "minLength": 1},
        "ambiguous": {"enum": ["report", "refuse"]},
    },
    "additionalProperties": False,
}
DESIGNERS_RETRIES, CALLERS_RETRIES = 1, 2
DEFAULT_STRATEGY = "system_prompt"
NOT_AT_THE_ROOT = {"$ref", "allOf", "anyOf", "oneOf"}


class Contract:
    """What a final answer must look like, where that demand came from, and how it is asked for."""

    def __init__(self, schema: dict[str, Any], source: str, options: dict[str, Any], retries: int) -> None:
        self.schema = schema
        self.source = source
        self.max_retries = int(options.get("max_retries", retries))
        self.is_whole_text = bool(options.get("strict_json_only")) or options.get("extract_json") is False
        self.is_lenient = options.get("validation_mode") == "lenient"
        self.strategy = str(options.get("strategy", DEFAULT_STRATEGY))
        self.refuses_ambiguous = options.get("ambiguous") == "refuse"
        if self.strategy == "extract" and "max_retries" not in options:
            self.max_retries = 0

    @property
    def fails_as(self) -> str:
        """Return the error type of a run whose answers did not fit."""
        return "output_schema_validation_failed" if self.source == "blueprint" else "schema_validation_failed"


def contract_of(invocation: dict[str, Any], environment: Mapping[str, str]) -> Contract | None:
    """Return the contract of an invocation, or None where nobody demands anything.

    Raises:
        RunFailed: the demand contradicts itself, cannot be kept, or its schema is not acceptable.
    """
    blueprint = invocation.get("agent_blueprint", {})
    options = invocation.get("output_schema_options", {})
    _require_options(options, "$.output_schema_options")
    if blueprint.get("output_schema") is not None or blueprint.get("output_format") is not None:
        _require_authority(invocation, blueprint, options)
    contract = _first_demand(invocation, blueprint, options, environment)
    if contract is not None:
        _require_schema(contract.schema)
        contract.strategy = _chosen(contract, is_resume=invocation["mode"] == "resume")
    return contract


def _first_demand(
    invocation: dict[str, Any], blueprint: dict[str, Any], options: dict[str, Any], environment: Mapping[str, str]
) -> Contract | None:
    if blueprint.get("output_format") is not None:
        _require_format(blueprint["output_format"]["type"])
    if blueprint.get("output_schema") is not None:
        return Contract(blueprint["output_schema"], "blueprint", options, DESIGNERS_RETRIES)
    if "output_schema" in invocation:
        source = invocation.get("output_schema_source", "inline")
        retries = DESIGNERS_RETRIES if source == "blueprint" else CALLERS_RETRIES
        return Contract(invocation["output_schema"], source, _usual_options(environment) | options, retries)
    if blueprint.get("default_output_schema") is not None:
        merged = (blueprint.get("default_output_schema_options") or {}) | options
        _require_options(merged, "$.agent_blueprint.default_output_schema_options")
        merged = _usual_options(environment) | merged
        return Contract(blueprint["default_output_schema"], "default", merged, CALLERS_RETRIES)
    return None


def _require_authority(invocation: dict[str, Any], blueprint: dict[str, Any], options: dict[str, Any]) -> None:
    problems = []
    demanded = invocation.get("output_schema")
    if demanded is not None and not is_same(demanded, blueprint.get("output_schema")):
        problems.append("$.output_schema: the contract of the blueprint is authoritative")
    free = {"strategy"} if blueprint.get("output_schema") is None else {"strategy", "ambiguous"}
    overriding = sorted(options.keys() - free)
    problems += [
        f"$.output_schema_options.{name}: the contract of the blueprint is authoritative" for name in overriding
    ]
    if problems:
        refuse_as_invalid(problems)


def _require_options(options: dict[str, Any], path: str) -> None:
    problems = problems_of(OPTIONS, options, path)
    if options.get("strict_json_only") is True:
        for name, contradiction in (("extract_json", True), ("validation_mode", "lenient"), ("strategy", "extract")):
            if options.get(name) == contradiction:
                problems.append(f"{path}.{name}: contradicts strict_json_only")
    if options.get("extract_json") is False and options.get("strategy") == "extract":
        problems.append(f"{path}.strategy: contradicts an extract_json that is false")
    if problems:
        refuse_as_invalid(problems)


def _require_format(name: str) -> None:
    if name not in FORMATS:
        refuse_capability([f"output_schema.formats:{name}"])


def _require_schema(schema: dict[str, Any]) -> None:
    faults = faults_of(schema)
    if faults:
        message = f"the output schema is not acceptable, first {faults[0]}; correct it"
        raise RunFailed("invalid_output_schema", message, details={"problems": faults})


def _usual_options(environment: Mapping[str, str]) -> dict[str, Any]:
    usual: dict[str, Any] = {}
    retries = environment.get("SCHEMA_ENFORCEMENT_MAX_RETRIES", "")
    if retries.isdecimal() and int(retries) <= 10:
        usual["max_retries"] = int(retries)
    extracts = environment.get("SCHEMA_ENFORCEMENT_EXTRACT_JSON", "").lower()
    if extracts in {"0", "false", "no"}:
        usual["extract_json"] = False
    return usual


def _chosen(contract: Contract, *, is_resume: bool) -> str:
    wanted = contract.strategy
    if wanted == "auto":
        wanted = "native" if _fits_natively(contract.schema) else "tool"
    if wanted not in STRATEGIES or (wanted == "native" and not _fits_natively(contract.schema)):
        refuse_capability([f"output_schema.strategies:{wanted}"])
    return "prompt" if is_resume and wanted == "system_prompt" else wanted


def tool_schema(contract: Contract) -> dict[str, Any]:
    """Return the input schema of the tool `submit_answer`, which is one of an object."""
    if _fits_natively(contract.schema):
        return contract.schema
    inner = _moved(contract.schema)
    return {"type": "object", "required": ["answer"], "properties": {"answer": inner}, "additionalProperties": False}


def answer_in(given: Any, contract: Contract) -> Any:
    """Return the answer in the input of a call of `submit_answer`; the input itself if it is of another form."""
    if not _fits_natively(contract.schema) and isinstance(given, dict) and given.keys() == {"answer"}:
        return given["answer"]
    return given


def _moved(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_moved(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(one) for key, one in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = "#/properties/answer" + reference.removeprefix("#")
    return moved


def _fits_natively(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" and NOT_AT_THE_ROOT.isdisjoint(schema)
