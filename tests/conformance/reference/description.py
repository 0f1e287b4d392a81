"""Who this executor is and what it can do (SPEC 7)."""

from typing import Any

from attachments import MEDIA_TYPES

NAME, VERSION = "reference", "1.0.0"
SCHEMA_VERSIONS = ["3.0", "2.2", "2.1"]
AGENT_TYPES = ["autonomous"]
STRATEGIES = ["system_prompt", "prompt", "extract", "native", "tool"]
FORMATS: list[str] = []
SECRETS = ["ANTHROPIC_API_KEY"]
ENVIRONMENT = [
    "ANTHROPIC_BASE_URL",
    "TRACEPARENT",
    "SCHEMA_ENFORCEMENT_MAX_RETRIES",
    "SCHEMA_ENFORCEMENT_EXTRACT_JSON",
    "AO_CONFORM_NOISE",
    "AO_CONFORM_LINGER_SECONDS",
    "AO_CONFORM_ASK",
]
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "show_reasoning": {"type": "boolean"},
        "access": {"enum": ["read", "edit", "all"]},
        "max_tokens": {"type": "integer", "minimum": 1},
        "max_api_retries": {"type": "integer", "minimum": 0, "maximum": 2},
    },
}
EXECUTOR = {"name": NAME, "version": VERSION}
DESCRIPTION: dict[str, Any] = {
    "schema_versions": SCHEMA_VERSIONS,
    "executor": EXECUTOR,
    "agent_types": AGENT_TYPES,
    "capabilities": {
        "resume": True,
        "multi_turn": True,
        "prepare": True,
        "cancel": True,
        "streaming": True,
        "check": True,
        "trace": True,
        "input": True,
        "input_parking": True,
        "attachments": {"media_types": MEDIA_TYPES},
        "output_schema": {"strategies": STRATEGIES, "formats": FORMATS},
    },
    "config_schema": CONFIG_SCHEMA,
    "secrets": SECRETS,
    "environment": ENVIRONMENT,
    "requires_programs": [{"name": "sh", "install_hint": "every POSIX system has one"}],
    "model_endpoint": {"anthropic": {"env": "ANTHROPIC_BASE_URL", "api_key_env": "ANTHROPIC_API_KEY"}},
}
