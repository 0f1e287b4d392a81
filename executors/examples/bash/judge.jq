# What becomes of an invocation: run_started, the terminal event, the exit code, and the event if it is cancelled.
# In: $lines (the line as JSON, or nothing where it is no I-JSON), $unique (for names), $dir_is_there ("yes" or not).

def at($key): if $key | type == "number" then "[\($key)]"
  elif $key | test("^[A-Za-z_][A-Za-z0-9_-]*\\z") then ".\($key)" else "[\($key | tojson)]" end;
def is($kind): type == $kind or ($kind == "integer" and type == "number" and . == floor);
def listed: if type == "array" then . else [.] end;

# Each way in which a value breaks a schema, as `path: message`. An own schema misses a field where the field would be.
def problems($schema; $path; $own): . as $value
  | if ($schema | has("type")) and all($schema.type | listed[]; . as $type | $value | is($type) | not)
      then "\($path): is \(type), expected \($schema.type | listed | join(" or "))" else empty end,
    if ($schema | has("enum")) and all($schema.enum[]; . != $value)
      then "\($path): is none of \($schema.enum | tojson[:200])" else empty end,
    if type == "string" and length < ($schema.minLength // 0) then "\($path): is too short" else empty end,
    if type == "number" and ($schema | (has("minimum") and $value < .minimum)
        or (has("exclusiveMinimum") and $value <= .exclusiveMinimum)) then "\($path): is too small" else empty end,
    if type == "object" then $schema.required // [] | .[] | select(. as $key | $value | has($key) | not)
      | "\($path)\(if $own then at(.) else "" end): '\(.)' is missing" else empty end,
    if type == "object" and ($schema | has("properties") or has("additionalProperties")) then
      to_entries[] | .key as $key
      | if $schema.properties // {} | has($key) then .value | problems($schema.properties[$key]; $path + at($key); $own)
        elif $schema.additionalProperties == false then "\($path): '\($key)' is not allowed"
        elif $schema.additionalProperties | type == "object"
        then .value | problems($schema.additionalProperties; $path + at($key); $own) else empty end
    elif type == "array" and ($schema | has("items")) then
      to_entries[] | .key as $key | .value | problems($schema.items; $path + at($key); $own)
    else empty end;

def object($fields): {type: "object", properties: $fields};
def object: object({});
def choice: {enum: .};
def text: {type: "string"};
def name: text + {minLength: 1};
def texts: {type: "array", items: text};
def texts_by_name: object + {additionalProperties: text};
def optional: .type |= [., "null"];
def least($number): {type: "integer", minimum: $number} | optional;
def more_than_0: {type: "number", exclusiveMinimum: 0} | optional;
def output_format: object({type: (["agent_response"] | choice), form: (["xml", "json", "markdown"] | choice)})
  | .required = ["type"] | optional;
def blueprint: object({name: name, type: (["autonomous", "procedural"] | choice), description: (text | optional),
    system_prompt: (text | optional), command: (text | optional), parameters_schema: (object | optional),
    output_schema: (object | optional), output_format: output_format, default_output_schema: (object | optional),
    default_output_schema_options: (object | optional), mcp_servers: (object | optional)}) | .required = ["name"];
def limits: object({timeout_seconds: more_than_0, max_turns: least(1), max_cost_usd: more_than_0,
    max_event_bytes: least(4096), heartbeat_interval_seconds: more_than_0, cancel_grace_seconds: more_than_0});
def invocation: object({mode: (["start", "resume"] | choice), run_id: name, session_id: name, parameters: object,
    agent_name: text, agent_blueprint: blueprint, output_schema: object, output_schema_source: text, limits: limits,
    output_schema_options: object, project_dir: text, executor_session_id: name, executor_config: object,
    requires: texts, control: object({stdin: (["open", "closed"] | choice), turns: {type: "boolean"}}),
    metadata: object}) | .required = ["mode", "parameters"];
def mcp_server: (if (.type // "stdio") == "stdio" then ["command"] else ["type", "url"] end) as $required
  | object({type: (["stdio", "http", "sse"] | choice), command: name, url: text, args: texts, env: texts_by_name,
    headers: texts_by_name}) | .required = $required;
def invocation_problems: problems(invocation; "$"; true),
  (.agent_blueprint | objects
    | (.mcp_servers | objects | to_entries[] | "$.agent_blueprint.mcp_servers\(at(.key))" as $path | .value
      | if type == "object" then problems(mcp_server; $path; true) else problems(object; $path; true) end,
        (objects | .url | strings | select(test("^https?://") | not) | "\($path).url: expected http:// or https://")),
      (select(all(.output_schema, .output_format; type == "object"))
        | "$.agent_blueprint: output_schema and output_format contradict each other")),
  (.project_dir | strings | select(startswith("/") | not) | "$.project_dir: expected an absolute path"),
  (select(.mode == "resume" and (has("executor_session_id") | not)) | "$: executor_session_id is missing");

# The part of Draft-7 that is judged here. A parameters_schema with any other keyword is refused.
def schema: ["null", "boolean", "object", "array", "number", "string", "integer"] as $types
  | {type: ["object", "boolean"]} as $part
  | object({type: {type: "array", items: ($types | choice)}, enum: {type: "array"}, required: texts,
    minLength: {type: "integer", minimum: 0}, minimum: {type: "number"}, exclusiveMinimum: {type: "number"},
    properties: (object + {additionalProperties: $part}), additionalProperties: $part,
    items: {type: ["object", "boolean", "array"]}, title: text, description: text, default: {}, format: text,
    examples: {type: "array"}, "$schema": text, "$id": text, "$comment": text});
def parts: (.properties | objects | .[]), (.items, .additionalProperties | objects);
def flaws: (select(."$ref" // "#" | tostring | startswith("#") | not) | "$.$ref: refers to something outside"),
  (select(.type == []) | "$.type: names no type"),
  (("type", "required") as $key | .[$key] | arrays | select(length > (unique | length)) | "$.\($key): has a name twice"),
  (if has("type") then .type |= listed else . end | problems(schema; "$"; true)), (parts | objects | flaws);
def not_judged: if type == "boolean" then "boolean schema" else
    (keys_unsorted[] | select(IN(schema.properties | keys[]) | not)),
    (select(.items | type != "object" and . != null) | "items"), (parts | not_judged) end;

# The <inputs> block (SPEC 8.2).
def swap($from; $to): split($from) | join($to);
def as_json: tojson | swap("\u0085"; "\\u0085") | swap("\u2028"; "\\u2028") | swap("\u2029"; "\\u2029");
def lines: reduce ("\r\n", "\r", "\u000b", "\f", "\u001c", "\u001d", "\u001e", "\u0085", "\u2028", "\u2029") as $mark
    (.; swap($mark; "\n")) | split("\n");
def shown: if type != "string" or . == "" then as_json
  else lines as $lines | if $lines | length == 1 then . else ["|", "  " + $lines[]] | join("\n") end end;
def block: [to_entries[] | (.key | if test("^[A-Za-z_][A-Za-z0-9_.-]*\\z") then . else as_json end) + ": "
    + (.value | shown) + "\n"] | join("") | split("<") | .[1:] as $rest | .[:1] + [$rest[]
    | if test("^[\\s\\x1f]*/?[\\s\\x1f]*inputs\\b"; "i") then "&lt;" + . else "<" + . end]
  | "<inputs>\n\(join(""))</inputs>";

def blame($type; $message; $more):
  {type: $type, message: $message, retryable: false, side_effects: "none", origin: "caller"} + $more;
def lacks($names): blame("unsupported_capability"; "not served: \($names | join(", "))"; {details: {missing: $names}});
def wrong($problems):
  blame("invalid_invocation"; $problems | join("; "); {details: {problems: $problems}});
def prompt: object({prompt: name}) | .required = ["prompt"];
def blueprint_of: .agent_blueprint | if type == "object" then . else {} end;
def refusal: [invocation_problems] as $problems | blueprint_of as $blueprint
  | if $problems != [] then wrong($problems)
    elif .requires // [] | length > 0 then lacks(.requires)
    elif .mode == "resume" then lacks(["resume"])
    elif $blueprint.type == "procedural" then lacks(["agent_type:procedural"])
    else ($blueprint.parameters_schema // prompt) as $schema
    | [$schema | flaws] as $flaws | [if $flaws == [] then $schema | not_judged else empty end] as $unknown
    | [if $flaws + $unknown == [] then .parameters | problems($schema; "$"; false) else empty end] as $errors
    | if $flaws != [] then wrong($flaws | map("$.agent_blueprint.parameters_schema: in it, \(.)"))
      elif $unknown != [] then lacks($unknown | map("parameters_schema:\(.)"))
      elif $errors != [] then blame("parameters_validation_failed"; $errors | join("; ");
        {validation_errors: $errors, details: {validation_errors: $errors, schema: $schema}})
      elif $dir_is_there == "yes" then null
      else blame("workspace_error"; "\(.project_dir) is no directory"; {origin: "environment"}) end end;
def verdict: if . == null then blame("invalid_json"; "stdin has no line that is an object of I-JSON (SPEC 3)"; {})
  elif .schema_version | type != "string" or (test("^(0|[1-9][0-9]{0,5})[.](0|[1-9][0-9]{0,5})\\z") | not)
  then wrong(["$.schema_version: expected a version such as 3.0"])
  elif .schema_version | startswith("3.") then refusal
  else blame("unsupported_schema_version"; "\(.schema_version) is not spoken here, only 3.0 is";
    {details: {requested: .schema_version, supported: ["3.0"]}}) end;

# An event that is longer than a line may be: the text is cut, and a failure goes without its details.
def bytes: tojson | utf8bytelength;
def cut($room): . as $text | {low: 0, high: $room} | until(.low >= .high; ((.low + .high + 1) / 2 | floor) as $middle
    | if $text[:$middle] | bytes - 2 <= $room then .low = $middle else .high = $middle - 1 end) | $text[:.low];
def fit($most): if bytes < $most then .
  elif .error then .error |= (del(.details, .validation_errors) | .message |= .[:200])
  else .result_text as $text | . + {result_text: "", truncated: true, original_bytes: ($text | utf8bytelength)}
    | ($most - 1 - bytes) as $room | .result_text = ($text[:$room] | cut($room)) end;

($lines[0] | if type == "object" then with_entries(select(.value != null)) else null end) as $asked
| def named($field; $prefix): if $asked == null then null
    else $asked[$field] | if type == "string" and . != "" then . else $prefix + $unique end end;
  def event($type; $seq): {event_type: $type, session_id: named("session_id"; "ses_"), run_id: named("run_id"; "run_"),
    seq: $seq, timestamp: (now | todate)};
  def failure($status): event("failure"; 2) + {status: $status, error: .};
  ($asked | verdict) as $error
| event("run_started"; 1) + {schema_version: "3.0", executor: {name: "bash", version: "0.1.0"}},
  (if $error then $error | failure("failed")
   else ($asked | if blueprint_of.parameters_schema then .parameters | block else .parameters.prompt end) as $answer
   | event("result"; 2) + {result_text: $answer, result_data: null, stop_reason: "end_turn"} end
   | fit([4096, (($asked.limits | objects | .max_event_bytes | numbers) // 1048576)] | max)),
  (if $error == null then 0 elif $error.type == "workspace_error" then 1 else 64 end),
  (blame("cancelled"; "the run was cancelled"; {}) | failure("cancelled"))
