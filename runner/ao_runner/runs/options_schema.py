"""The JSON Schema of the options of a contract, for documents that describe them to clients."""

from typing import Any, Final

from ao_protocol.contracts.contract import MAX_RETRIES, Ambiguity, Strategy, ValidationMode

OPTIONS: Final[dict[str, Any]] = {
    "max_retries": {"type": "integer", "minimum": 0, "maximum": MAX_RETRIES},
    "extract_json": {"type": "boolean"},
    "strict_json_only": {"type": "boolean"},
    "validation_mode": {"type": "string", "enum": list(ValidationMode)},
    "ambiguous": {"type": "string", "enum": list(Ambiguity)},
    "strategy": {"type": "string", "description": f"{', '.join(Strategy)}, or one of the executor's own."},
}
"""The JSON Schema of each option of a contract, for those who ask in JSON. `options_from` checks what they give."""
