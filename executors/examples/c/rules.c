#include "rules.h"

#include <string.h>

// JSON consists of tokens of C, so the preprocessor puts it into quotes.
#define JSON(...) #__VA_ARGS__

const char INVOCATION[] = JSON({
  "type": "object", "required": ["mode", "parameters"],
  "properties": {
    "mode": {"enum": ["start", "resume"]}, "run_id": {"type": "string", "minLength": 1},
    "session_id": {"type": "string", "minLength": 1}, "parameters": {"type": "object"},
    "agent_name": {"type": "string"},
    "agent_blueprint": {
      "type": "object", "required": ["name"],
      "properties": {
        "name": {"type": "string", "minLength": 1}, "type": {"enum": ["autonomous", "procedural"]},
        "description": {"type": ["string", "null"]}, "system_prompt": {"type": ["string", "null"]},
        "command": {"type": ["string", "null"]}, "parameters_schema": {"type": ["object", "null"]},
        "output_schema": {"type": ["object", "null"]},
        "output_format": {
          "type": ["object", "null"], "required": ["type"],
          "properties": {"type": {"enum": ["agent_response"]}, "form": {"enum": ["xml", "json", "markdown"]}}
        },
        "default_output_schema": {"type": ["object", "null"]},
        "default_output_schema_options": {"type": ["object", "null"]}, "mcp_servers": {"type": ["object", "null"]}
      }
    },
    "output_schema": {"type": "object"}, "output_schema_source": {"type": "string"},
    "output_schema_options": {"type": "object"}, "project_dir": {"type": "string"},
    "executor_session_id": {"type": "string", "minLength": 1}, "executor_config": {"type": "object"},
    "requires": {"type": "array", "items": {"type": "string"}}, "metadata": {"type": "object"},
    "control": {
      "type": "object", "properties": {"stdin": {"enum": ["open", "closed"]}, "turns": {"type": "boolean"}}
    },
    "limits": {
      "type": "object",
      "properties": {
        "timeout_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "max_turns": {"type": ["integer", "null"], "minimum": 1},
        "max_cost_usd": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "max_event_bytes": {"type": ["integer", "null"], "minimum": 4096},
        "heartbeat_interval_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "cancel_grace_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0}
      }
    }
  }
});

const char PROGRAM[] = JSON({
  "type": "object", "required": ["command"],
  "properties": {
    "type": {"enum": ["stdio", "http", "sse"]}, "command": {"type": "string", "minLength": 1},
    "url": {"type": "string"}, "args": {"type": "array", "items": {"type": "string"}},
    "env": {"type": "object", "additionalProperties": {"type": "string"}},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}}
  }
});

const char REMOTE[] = JSON({
  "type": "object", "required": ["type", "url"],
  "properties": {
    "type": {"enum": ["stdio", "http", "sse"]}, "command": {"type": "string", "minLength": 1},
    "url": {"type": "string"}, "args": {"type": "array", "items": {"type": "string"}},
    "env": {"type": "object", "additionalProperties": {"type": "string"}},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}}
  }
});

const char PROMPT[] = JSON({
  "type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string", "minLength": 1}}
});

const char SCHEMA[] = JSON({
  "type": "object",
  "properties": {
    "type": {"type": ["string", "array"]},
    "enum": {"type": "array"}, "minLength": {"type": "integer", "minimum": 0}, "minimum": {"type": "number"},
    "exclusiveMinimum": {"type": "number"}, "required": {"type": "array", "items": {"type": "string"}},
    "properties": {"type": "object", "additionalProperties": {"type": ["object", "boolean"]}},
    "additionalProperties": {"type": ["object", "boolean"]}, "items": {"type": ["object", "boolean", "array"]},
    "title": {"type": "string"}, "description": {"type": "string"}, "default": {}, "examples": {"type": "array"},
    "format": {"type": "string"}, "$schema": {"type": "string"}, "$id": {"type": "string"},
    "$comment": {"type": "string"}
  }
});

const Json *read_rule(Arena *arena, const char *rule)
{
    size_t const size = strlen(rule);
    char *line = arena_take(arena, size + 1); // is changed while it is read
    return read_object(arena, memcpy(line, rule, size), size);
}
