// Whether an invocation can be performed (SPEC 2, 4 and 8), and what the agent receives.
'use strict'
const fs = require('node:fs')
const { entries, toJson } = require('./ijson.js')
const { at, flaws, isObject, notJudged, object, problems } = require('./schema.js')

const text = { type: 'string' }
const name = { type: 'string', minLength: 1 }
const texts = { type: 'array', items: text }
const textsByName = { type: 'object', additionalProperties: text }
const optional = (schema) => ({ ...schema, type: [schema.type, 'null'] })
const least = (minimum) => optional({ type: 'integer', minimum })
const moreThan0 = optional({ type: 'number', exclusiveMinimum: 0 })
const BLUEPRINT = object({
  name, type: { enum: ['autonomous', 'procedural'] }, description: optional(text), system_prompt: optional(text),
  command: optional(text), parameters_schema: optional(object()), output_schema: optional(object()),
  default_output_schema: optional(object()), default_output_schema_options: optional(object()),
  mcp_servers: optional(object()),
  output_format: optional(object({ type: { enum: ['agent_response'] }, form: { enum: ['xml', 'json', 'markdown'] } },
    'type')),
}, 'name')
const INVOCATION = object({
  mode: { enum: ['start', 'resume'] }, run_id: name, session_id: name, parameters: object(), agent_name: text,
  agent_blueprint: BLUEPRINT, output_schema: object(), output_schema_source: text, output_schema_options: object(),
  project_dir: text,
  executor_session_id: name, executor_config: object(), requires: texts, metadata: object(),
  control: object({ stdin: { enum: ['open', 'closed'] }, turns: { type: 'boolean' } }),
  limits: object({ timeout_seconds: moreThan0, max_turns: least(1), max_cost_usd: moreThan0,
    max_event_bytes: least(4096), heartbeat_interval_seconds: moreThan0, cancel_grace_seconds: moreThan0 }),
}, 'mode', 'parameters')
const SERVER = { type: { enum: ['stdio', 'http', 'sse'] }, command: name, url: text, args: texts, env: textsByName,
  headers: textsByName }
const PROMPT = object({ prompt: name }, 'prompt')

function* invocationProblems(asked) {
  yield* problems(asked, INVOCATION, '$', true)
  const blueprint = isObject(asked.agent_blueprint) ? asked.agent_blueprint : {}
  for (const [key, server] of isObject(blueprint.mcp_servers) ? entries(blueprint.mcp_servers) : []) {
    const path = `$.agent_blueprint.mcp_servers${at(key)}`
    const required = (server?.type ?? 'stdio') === 'stdio' ? ['command'] : ['type', 'url']
    yield* problems(server, isObject(server) ? object(SERVER, ...required) : object(), path, true)
    if (typeof server?.url === 'string' && !/^https?:[/][/]/.test(server.url)) {
      yield `${path}.url: expected http:// or https://`
    }
  }
  if (isObject(blueprint.output_schema) && isObject(blueprint.output_format)) {
    yield '$.agent_blueprint: output_schema and output_format contradict each other'
  }
  if (typeof asked.project_dir === 'string' && !asked.project_dir.startsWith('/')) {
    yield '$.project_dir: expected an absolute path'
  }
  if (asked.mode === 'resume' && !('executor_session_id' in asked)) yield '$: executor_session_id is missing'
}

const error = (type, message, more) =>
  ({ type, message, retryable: false, side_effects: 'none', origin: 'caller', ...more })
const invalid = (found) => error('invalid_invocation', found.join('; '), { details: { problems: found } })
const lacking = (missing) =>
  error('unsupported_capability', `not served here: ${missing.join(', ')}`, { details: { missing } })

/** The error that an invocation ends with before any work, or null where there is nothing against it. */
function refusal(asked) {
  const version = asked.schema_version
  if (!/^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$/.test(typeof version === 'string' ? version : '')) {
    return invalid(['$.schema_version: expected a version such as 3.0'])
  }
  if (!version.startsWith('3.')) {
    const details = { requested: version, supported: ['3.0'] }
    return error('unsupported_schema_version', `${version} is not spoken here, only 3.0 is`, { details })
  }
  const found = [...invocationProblems(asked)]
  if (found.length) return invalid(found)
  if (asked.requires?.length) return lacking(asked.requires)
  if (asked.mode === 'resume') return lacking(['resume'])
  if (asked.agent_blueprint?.type === 'procedural') return lacking(['agent_type:procedural'])
  const schema = asked.agent_blueprint?.parameters_schema ?? PROMPT
  return schemaRefusal(asked.parameters, schema) ?? placeRefusal(asked.project_dir ?? '/')
}
function schemaRefusal(parameters, schema) {
  const wrong = flaws(schema)
  if (wrong.length) return invalid(wrong.map((flaw) => `$.agent_blueprint.parameters_schema: in it, ${flaw}`))
  const unknown = notJudged(schema)
  if (unknown.length) return lacking(unknown.map((keyword) => `parameters_schema:${keyword}`))
  const errors = [...problems(parameters, schema, '$', false)]
  const more = { validation_errors: errors, details: { validation_errors: errors, schema } }
  return errors.length ? error('parameters_validation_failed', errors.join('; '), more) : null
}
function placeRefusal(path) {
  try {
    if (fs.statSync(path).isDirectory()) return null
  } catch {} // it is not there, holds a NUL, is too long, or may not be looked at
  return error('workspace_error', `${path} is no directory`, { origin: 'environment' })
}

// What the agent receives: the prompt, or the <inputs> block (SPEC 8.2).
const escaped = (end) => '\\u' + end.charCodeAt(0).toString(16).padStart(4, '0')
const json = (value) => toJson(value).replace(/[\u0085\u2028\u2029]/g, escaped)
function shown(value) {
  if (typeof value !== 'string' || value === '') return json(value)
  const lines = value.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)
  return lines.length === 1 ? value : ['|', ...lines.map((line) => `  ${line}`)].join('\n')
}
function agentText({ agent_blueprint: blueprint, parameters }) {
  if (!blueprint?.parameters_schema) return parameters.prompt
  const word = (key) => (/^[A-Za-z_][\w.-]*$/.test(key) ? key : json(key))
  const fields = entries(parameters).map(([key, value]) => `${word(key)}: ${shown(value)}\n`)
  return `<inputs>\n${fields.join('').replace(/<(?=[\s\x1f]*\/?[\s\x1f]*inputs\b)/gi, '&lt;')}</inputs>`
}

module.exports = { agentText, error, isObject, refusal }
