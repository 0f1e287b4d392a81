/**
 * What the protocol defines without processes: I-JSON, JSON Schema, defaults of events, refusals, prompts and contracts
 * (SPEC 3, 4, 5.2, 8, 9). AO_SCHEMAS names the folder of a copy of the published schemas.
 */
import fs from 'node:fs'
import url from 'node:url'
import util from 'node:util'
import vm from 'node:vm'

const SCHEMAS = process.env.AO_SCHEMAS ?? url.fileURLToPath(new URL('../../../protocol/ao_protocol/schemas/3.0', import.meta.url))
const CHECK_MS = 5000, MAX_LEVELS = 64, MAX_TOLD = 10
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]|-?\d[\d.eE+-]*/g
const SETTINGS = ['model', 'reasoning_effort', 'show_reasoning', 'access', 'allowed_tools', 'additional_folders']

/** Why the runner ends the run: an error object, without the fields that SPEC 5.2 adds. */
export class Ending extends Error {
  constructor(type, message, more) {
    super(message)
    this.error = { type, message, ...more }
  }
}
const missing = (name) => new Ending('unsupported_capability', `${name} is not offered`, { details: { missing: [name] } })
const invalid = (problems) => new Ending('invalid_invocation', problems[0], { details: { problems } })

/** Returns the forms of a secret that are taken out of events, as latin1 (AOX-263). */
export function formsOf(secret) {
  const escaped = JSON.stringify(secret).slice(1, -1), base64 = Buffer.from(secret).toString('base64').replace(/=+$/, '')
  const forms = secret.length < 8 ? [] : [secret, escaped, encodeURIComponent(secret), base64]
  return forms.map((form) => Buffer.from(form).toString('latin1')).sort((a, b) => b.length - a.length)
}

/** Returns the value of a JSON text; throws where it is not I-JSON. */
export function decode(text) {
  const value = JSON.parse(text)
  const open = []
  for (const [token, string, colon] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') open.push(new Set())
    else if (token === '}' || token === ']') open.pop()
    else if (!string && !(token.match(/^-?\d+$/) ? Number.isSafeInteger : Number.isFinite)(Number(token))) throw Error('number')
    if (open.length > MAX_LEVELS) throw Error('too deep')
    const names = open.at(-1), name = colon && JSON.parse(string).toWellFormed()
    if (colon && names.has(name)) throw Error('duplicate key')
    if (colon) names.add(name)
  }
  return value
}

const loaded = new Map()
/** Returns a published schema by its name, or by a `$ref` that ends in it. */
export function published(reference) {
  const name = reference.replace(/#.*|\.schema\.json/g, '').split(/[:/]/).at(-1)
  if (!loaded.has(name)) loaded.set(name, JSON.parse(fs.readFileSync(`${SCHEMAS}/${name}.schema.json`, 'utf8')))
  return loaded.get(name)
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)
const TYPES = {
  object: isObject, array: Array.isArray, string: (v) => typeof v === 'string', number: (v) => typeof v === 'number',
  integer: Number.isInteger, boolean: (v) => typeof v === 'boolean', null: (v) => v === null,
}
const same = util.isDeepStrictEqual
const count = (value) => [...value].length
const CHECKS = {
  type: (rule, v) => [rule].flat().some((name) => TYPES[name](v)), const: same, enum: (rule, v) => rule.some((one) => same(one, v)),
}
const OF_TYPE = {
  number: {
    minimum: (r, v) => v >= r, maximum: (r, v) => v <= r, exclusiveMinimum: (r, v) => v > r, exclusiveMaximum: (r, v) => v < r,
    multipleOf: (r, v) => Number.isInteger(Number((v / r).toFixed(9))),
  },
  string: { minLength: (r, v) => count(v) >= r, maxLength: (r, v) => count(v) <= r, pattern: (r, v) => new RegExp(r, 'u').test(v) },
  array: {
    minItems: (r, v) => v.length >= r, maxItems: (r, v) => v.length <= r,
    uniqueItems: (r, v) => !r || v.every((one, at) => !v.slice(0, at).some((other) => same(one, other))),
    contains: (r, v, root) => v.some((one) => fits(r, one, root)),
  },
  object: {
    minProperties: (r, v) => Object.keys(v).length >= r, maxProperties: (r, v) => Object.keys(v).length <= r,
    propertyNames: (r, v, root) => Object.keys(v).every((name) => fits(r, name, root)),
  },
}
const OF_SCHEMAS = {
  anyOf: (r, v, root) => r.some((one) => fits(one, v, root)), not: (r, v, root) => !fits(r, v, root),
  oneOf: (r, v, root) => r.filter((one) => fits(one, v, root)).length === 1,
}
const below = (path, key) => path + (/^[A-Za-z_][\w-]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`)

export const fits = (schema, value, root = schema) => problems(schema, value, '$', root).next().done

/** Yields what is wrong with a value, as `path: message` (SPEC 6.3), for Draft-7 and for the published schemas. */
export function* problems(schema, value, path = '$', root = schema) {
  if (schema === false) yield `${path}: nothing is allowed here`
  if (!isObject(schema)) return
  if (schema.$ref !== undefined) {
    const base = schema.$ref.startsWith('#') ? root : published(schema.$ref)
    yield* problems(target(schema.$ref, base), value, path, base)
    if (!root.$schema?.includes('2020-12')) return
  }
  const [type] = Object.keys(OF_TYPE).filter((name) => TYPES[name](value))
  for (const [keyword, holds] of Object.entries({ ...CHECKS, ...OF_TYPE[type], ...OF_SCHEMAS })) {
    const rule = schema[keyword], told = JSON.stringify(rule)?.slice(0, 200)
    if (rule !== undefined && !holds(rule, value, root)) yield `${path}: does not fit ${keyword} ${told}`
  }
  for (const part of schema.allOf ?? []) yield* problems(part, value, path, root)
  if (schema.if !== undefined) yield* problems(fits(schema.if, value, root) ? schema.then : schema.else, value, path, root)
  if (type === 'array') {
    for (const [at, one] of value.entries()) {
      const rule = Array.isArray(schema.items) ? schema.items[at] ?? schema.additionalItems : schema.items
      yield* problems(rule, one, `${path}[${at}]`, root)
    }
  } else if (type === 'object') {
    for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) yield `${path}: ${JSON.stringify(name)} is a required property`
    for (const [name, rule] of Object.entries(schema.dependencies ?? {})) {
      if (Object.hasOwn(value, name)) yield* problems(Array.isArray(rule) ? { required: rule } : rule, value, path, root)
    }
    for (const [name, one] of Object.entries(value)) {
      const patterns = Object.entries(schema.patternProperties ?? {}).filter(([pattern]) => new RegExp(pattern, 'u').test(name))
      const own = Object.hasOwn(schema.properties ?? {}, name) ? [schema.properties[name]] : []
      const rules = [...own, ...patterns.map(([, rule]) => rule)]
      if (!rules.length && schema.additionalProperties === false) yield `${path}: '${name}' is not allowed`
      for (const rule of rules.length ? rules : [schema.additionalProperties]) {
        if (rule !== false || own.length) yield* problems(rule, one, below(path, name), root)
      }
    }
  }
}

function target(reference, root) {
  const steps = decodeURIComponent(reference.replace(/^[^#]*#?/, '')).split('/').slice(1)
  const found = steps.reduce((here, step) => here?.[step.replaceAll('~1', '/').replaceAll('~0', '~')], root)
  if (found === undefined) throw Error(`${reference} leads nowhere`)
  return found
}

/** Calls a function that may never return for some schema or value; throws after five seconds (AOX-165). */
export const inTime = (work) => vm.runInNewContext('work()', { work }, { timeout: CHECK_MS })

const SELF = { $ref: '#' }, MAP = { type: 'object', additionalProperties: SELF }, LIST = { type: 'array', items: SELF, minItems: 1 }
const NAMES = { type: 'array', items: { type: 'string' } }, COUNT = { type: 'integer', minimum: 0 }, NUMBER = { type: 'number' }
const KIND = { enum: Object.keys(TYPES) }
const each = (names, rule) => Object.fromEntries(names.split(' ').map((name) => [name, rule]))
const META = {
  type: ['object', 'boolean'],
  properties: {
    ...each('properties patternProperties definitions', MAP), ...each('allOf anyOf oneOf', LIST), required: NAMES, enum: { type: 'array' },
    ...each('additionalProperties propertyNames contains not if then else additionalItems', SELF), items: { anyOf: [SELF, LIST] },
    dependencies: { type: 'object', additionalProperties: { anyOf: [SELF, NAMES] } }, type: { anyOf: [KIND, { type: 'array', items: KIND }] },
    ...each('minLength maxLength minItems maxItems minProperties maxProperties', COUNT), uniqueItems: { type: 'boolean' },
    ...each('minimum maximum exclusiveMinimum exclusiveMaximum multipleOf', NUMBER),
    ...each('pattern format title description $comment', { type: 'string' }), $ref: { type: 'string', pattern: '^#' },
  },
}

/** Returns why a schema of an agent or a caller is not acceptable; nothing where it is. */
export function schemaFaults(schema, path) {
  const found = [...problems(META, schema, path)]
  try {
    if (!found.length) [{}, [], ''].forEach((value) => inTime(() => [...problems(schema, value)]))
  } catch (error) {
    found.push(`${path}: ${error.message}`)
  }
  return found
}

const REFUSALS = new Set(['invalid_json', 'invalid_invocation', 'invocation_too_large', 'unsupported_schema_version',
  'unsupported_capability', 'invalid_executor_config', 'parameters_validation_failed', 'invalid_output_schema'])
const RETRYABLE = new Set(['session_busy', 'rate_limited', 'provider_unavailable', 'mcp_server_unavailable', 'resource_exhausted',
  'executor_start_timeout', 'executor_stalled', 'executor_crashed', 'attempt_lost', 'session_unavailable'])
const OF_RESULT = { result_text: null, result_data: null, stop_reason: 'end_turn' }

/** Returns an event with the defaults of SPEC 5.2; what is there stays. */
export function complete(event, { run_id, session_id, executor, version, seq, tools }) {
  const type = event.error?.type, isRefusal = REFUSALS.has(type)
  const added = {
    run_started: { schema_version: version, executor },
    message: { message_id: `msg_${run_id}_${event.seq ?? seq}`, role: 'assistant' },
    tool_finished: { tool_name: tools.get(event.tool_call_id)?.name, status: typeof event.error === 'string' ? 'failed' : 'completed' },
    result: 'result_text' in event || 'result_data' in event ? OF_RESULT : {},
    failure: { status: type === 'cancelled' ? 'cancelled' : 'failed' },
  }[event.event_type]
  const envelope = { event_type: event.event_type, session_id, run_id, seq, timestamp: new Date().toISOString() }
  const whole = { ...envelope, ...added, ...event }
  if (event.event_type !== 'failure' || !isObject(event.error)) return whole
  const origin = isRefusal || type === 'cancelled' ? 'caller' : 'executor'
  const usual = { retryable: RETRYABLE.has(type), side_effects: isRefusal ? 'none' : 'possible', origin }
  return { ...whole, error: { ...usual, ...event.error } }
}

const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/
const json = (value) => JSON.stringify(value).replace(/[\x85\u2028\u2029]/g, (c) => `\\u${c.charCodeAt().toString(16).padStart(4, '0')}`)
const quoted = (text) => text.replace(/<(?=\s*\/?\s*inputs(?![A-Za-z0-9_]))/gi, '&lt;')

function field([key, value]) {
  const name = /^[A-Za-z_][A-Za-z0-9_.-]*$/.test(key) ? key : quoted(json(key))
  if (typeof value !== 'string' || value === '') return `${name}: ${quoted(json(value))}`
  const lines = value.split(LINE_END)
  return lines.length === 1 ? `${name}: ${quoted(value)}` : [`${name}: |`, ...quoted(lines.join('\n')).split('\n').map((l) => `  ${l}`)].join('\n')
}

/** Returns the text for the agent (SPEC 8). */
export const promptOf = (parameters, hasSchema) =>
  hasSchema ? ['<inputs>', ...Object.entries(parameters).map(field), '</inputs>'].join('\n') : parameters.prompt

const PROMPT = { type: 'object', required: ['prompt'], properties: { prompt: { type: 'string', minLength: 1 } } }
const isTrue = (text) => (text === undefined ? undefined : /^(true|1)$/i.test(text))
export const withoutNulls = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null))
export const check = (schema, value) => inTime(() => [...problems(schema, value)])

/** Refuses what no executor can perform; returns the contract of the run, or nothing. */
export function checkOrder(blueprint, parameters) {
  const at = '$.agent_blueprint', form = [...problems(published('blueprint'), blueprint, at)]
  const { parameters_schema: inputs, output_schema: ours, default_output_schema: usual } = blueprint
  const options = withoutNulls(ours ? {} : blueprint.default_output_schema_options ?? {}), { strategy } = options
  const isStrict = options.strict_json_only === true, isWhole = options.extract_json === false
  if (isStrict && (options.extract_json === true || options.validation_mode === 'lenient' || strategy === 'extract')) {
    form.push(`${at}.default_output_schema_options.strict_json_only: contradicts extract_json, validation_mode or strategy`)
  }
  if (isWhole && strategy === 'extract') form.push(`${at}.default_output_schema_options.extract_json: contradicts strategy`)
  if (inputs) form.push(...schemaFaults(inputs, `${at}.parameters_schema`))
  if (form.length) throw invalid(form)
  const schema = ours ?? usual, validation_errors = check(inputs ?? PROMPT, parameters)
  if (validation_errors.length) {
    const details = { validation_errors, schema: inputs ?? PROMPT }
    throw new Ending('parameters_validation_failed', validation_errors[0], { validation_errors, details })
  }
  const [fault] = schema ? schemaFaults(schema, '$') : []
  if (fault) throw new Ending('invalid_output_schema', fault)
  if (blueprint.output_format) return new Contract({ format: blueprint.output_format, strategy })
  const { SCHEMA_ENFORCEMENT_MAX_RETRIES: usually, SCHEMA_ENFORCEMENT_EXTRACT_JSON: extracts } = process.env
  const retries = ours ? 1 : options.max_retries ?? Number(usually ?? 2), isLenient = options.validation_mode === 'lenient'
  const isClear = options.ambiguous === 'refuse'
  const isWholeText = isStrict || !(options.extract_json ?? isTrue(ours ? undefined : extracts) ?? true)
  return schema && new Contract({ schema, strategy, retries, isLenient, isClear, isWholeText, source: ours ? 'blueprint' : 'default' })
}

/** Returns the description that a text is. */
export function descriptionOf(text) {
  const faultOf = (fault) => new Ending('protocol_violation', `describe gives no description: ${fault}`, { side_effects: 'none' })
  let description
  try { description = decode(text) } catch (error) { throw faultOf(error.message) }
  for (const fault of problems(published('description'), description)) throw faultOf(fault)
  return description
}

/** Returns the version to send: 3.0, or the nearest one of this major that the executor lists. */
export function versionFor({ schema_versions: supported }) {
  const minors = supported.filter((version) => version.startsWith('3.')).map((version) => Number(version.slice(2)))
  const details = { requested: '3.0', supported }
  if (!minors.length) throw new Ending('unsupported_schema_version', `the executor speaks ${supported}`, { details })
  return `3.${Math.min(...minors)}`
}

/** Refuses what the description rules out, and says who keeps the contract (AOX-238, 251). */
export function checkAgainst({ agent_types, capabilities, config_schema }, { type = 'autonomous' }, contract, config) {
  const schema = config_schema ?? {}, offered = capabilities?.output_schema || undefined
  if (!(agent_types ?? ['autonomous']).includes(type)) throw missing(`agent_type:${type}`)
  const unknown = SETTINGS.filter((name) => Object.hasOwn(config, name) && !Object.hasOwn(schema.properties ?? {}, name))
  const found = [...check(schema, config), ...unknown.map((name) => `$: the executor does not know ${name}`)]
  const violations = found.map((problem) => ({ pointer: problem.split(': ')[0], message: problem.slice(problem.indexOf(': ') + 2) }))
  if (found.length) throw new Ending('invalid_executor_config', found[0], { details: { violations } })
  if (!contract) return
  if (contract.format && !offered?.formats?.includes('agent_response')) throw missing('output_schema.formats:agent_response')
  const strategies = offered?.strategies ?? ['prompt', 'system_prompt', 'extract']
  if (contract.strategy && !strategies.includes(contract.strategy)) throw missing(`output_schema.strategies:${contract.strategy}`)
  contract.isOurs = !offered
  if (contract.isOurs && contract.isLenient) throw missing('output_schema.validation_mode:lenient')
}

/** Returns the blueprint and the prompt to send: if the runner keeps the contract, with its demand and without its fields. */
export function requestOf(blueprint, parameters, contract) {
  const isProgram = blueprint.type === 'procedural', isOurs = contract?.isOurs, strategy = isOurs ? contract.strategy ?? 'prompt' : ''
  const agent_blueprint = Object.fromEntries(Object.entries(blueprint).filter(([name]) => !isOurs || !name.includes('output_')))
  const add = (text) => [text?.trim() ? text : '', demand(contract.schema)].filter(Boolean).join('\n\n')
  if (strategy === 'system_prompt') agent_blueprint.system_prompt = add(blueprint.system_prompt)
  const text = promptOf(parameters, blueprint.parameters_schema), prompt = strategy === 'prompt' ? add(text) : text
  return { agent_blueprint, ...(isProgram ? {} : { prompt }) }
}

/** Returns the demand of a contract (SPEC 9.3). */
export function demand(schema) {
  const text = JSON.stringify(schema, null, 2), runs = [...text.matchAll(/`+/g)].map(([run]) => run.length + 1)
  const fence = '`'.repeat(Math.max(3, ...runs))
  return `## Required Output Format\n\nYou MUST provide structured output as JSON conforming to this schema:\n\n${fence}json\n${text}\n${fence}\n\n` +
    'Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text.'
}

const NAME = 'answer|final(?:[_-](?:answer|output|result))?|json(?:[_-]output)?|output|response|result|structured[_-](?:output|response)'
const TAG = new RegExp(`<(${NAME})>(.*?)</\\1>`, 'gis'), ASIDE = /<(thinking|reasoning|tool_call|document)>.*?(<\/\1>|$)/gis
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n`]*\n(.*?)^ {0,3}\1[`~]*[ \t]*$/gms

function* bare(text) {
  for (let from = text.search(/[[{]/); from >= 0;) {
    let depth = 0, end = text.length
    for (const found of text.slice(from).matchAll(/"(?:[^"\\\n]|\\.)*"|[[\]{}]/g)) {
      depth += { '{': 1, '[': 1, '}': -1, ']': -1 }[found[0]] ?? 0
      if (depth === 0) { end = from + found.index + 1; break }
    }
    yield text.slice(from, end)
    const next = text.slice(end).search(/[[{]/)
    from = next < 0 ? -1 : end + next
  }
}

/** Returns the value of an answer under a schema, or its problems (SPEC 9.4); `isClear` refuses two that differ (9.7). */
export function readAnswer(text, schema, isWholeText, isClear = false) {
  const rest = text.replace(ASIDE, '\n'), fences = [...rest.replace(TAG, '\n').matchAll(FENCE)]
  const inFences = (isJson) => fences.filter(([, , language]) => /^(json)?$/i.test(language) === isJson).map(([, , , inner]) => inner)
  const tags = [...rest.matchAll(TAG)].map(([, , inner]) => inner.match(/```\w*\n(.*)```/s)?.[1] ?? inner)
  const ranks = [[text], tags, inFences(true), [...bare(rest.replace(TAG, '\n').replace(FENCE, '\n'))], inFences(false)]
  let found = ['$: no JSON value could be read from the answer']
  for (const rank of isWholeText ? [[text]] : ranks) {
    const values = rank.flatMap((one) => { try { return [{ value: decode(one.trim()) }] } catch { return [] } })
    const judged = values.map((one) => ({ ...one, problems: same(one.value, schema) ? ['$: this is the schema'] : [...problems(schema, one.value)] }))
    const valid = judged.filter((one) => !one.problems.length)
    const ambiguous = valid.some((one) => !same(one.value, valid.at(-1).value))
    if (ambiguous && isClear) {
      const [one, other] = [valid[0], valid.at(-1)].map(({ value }) => JSON.stringify(value).slice(0, 200))
      return { problems: [`$: two values may be meant, ${one} and ${other}; answer with one and no other JSON`] }
    }
    if (valid.length) return { ...valid.at(-1), ambiguous }
    if (judged.length && found[0].startsWith('$: no JSON')) found = judged[0].problems
  }
  return { problems: found }
}

const COUNTED = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'reasoning_tokens', 'cost_usd']

/** A contract that the runner keeps for an executor (AOX-251), or that it verifies (AOX-252). */
class Contract {
  attempts = 0
  earlier = {}
  spent = {}

  constructor(terms) {
    Object.assign(this, terms)
  }

  /** Takes an event of an attempt: passes it on, or holds it back until the answer is judged. */
  hear(relay, event) {
    const type = event.event_type, figures = type === 'usage' ? event : event.usage
    for (const name of COUNTED) if (figures?.[name] != null) this.spent[name] = (this.earlier[name] ?? 0) + figures[name]
    const whole = !figures ? event : { ...event, ...(type === 'usage' ? this.spent : { usage: this.spent }) }
    const isAnswer = type === 'message' && event.role === 'assistant' && event.parent_tool_call_id == null
    if (isAnswer || type === 'failure') this.release(relay)
    if (isAnswer) this.held = whole
    else if (type === 'result') this.result = whole
    else if (type !== 'message_delta' && !(type === 'run_started' && relay.seq)) relay.emit(whole)
  }

  release(relay) {
    if (this.held) relay.emit(this.held)
    this.held = undefined
  }

  /** Ends the run with the result or a failure, or returns the prompt with which the answer is asked for again. */
  judge(relay, canAskAgain) {
    const { result_text: text, result_data: data, stop_reason, usage } = this.result, attempt = (this.attempts += 1)
    if (['max_tokens', 'model_context_window_exceeded'].includes(stop_reason)) {
      return relay.fail(new Ending('output_truncated', 'a limit cut the answer off', { origin: 'model' }))
    }
    const answer = text === null ? { value: data, problems: check(this.schema, data) } : inTime(() => readAnswer(text, this.schema, this.isWholeText, this.isClear))
    const left = canAskAgain ? this.retries + 1 - attempt : 0, errors = answer.problems
    if (errors.length) this.held = undefined
    else this.release(relay)
    relay.say({ event_type: 'output_validation', attempt, valid: !errors.length, errors, retries_left: left })
    this.earlier = { ...this.spent }
    if (errors.length && left) return askAgain(errors)
    if (errors.length) {
      const type = this.source === 'blueprint' ? 'output_schema_validation_failed' : 'schema_validation_failed'
      return relay.fail(new Ending(type, `the answer does not fit: ${errors[0]}`, { validation_errors: errors, origin: 'model' }))
    }
    const strategy = this.strategy ?? 'prompt', first = strategy === 'extract' ? 'nothing' : strategy
    const sent = [first, ...Array(attempt - 1).fill('re_prompt')], delivered = text === null ? {} : { delivered_by: 'text' }
    const output = { schema_source: this.source, retry_count: attempt - 1, ambiguous: answer.ambiguous ?? false, strategy, sent, ...delivered }
    relay.say({ event_type: 'result', result_text: null, result_data: answer.value, stop_reason, output, ...(usage ? { usage } : {}) })
  }
}

const askAgain = (errors) => ['<output-validation-error>', 'Your answer does not fit the required output format:',
  ...errors.slice(0, MAX_TOLD).map((problem) => `- ${problem.slice(0, 400)}`),
  'Answer again, in full, with the JSON only. If you cannot answer, say so.', '</output-validation-error>'].join('\n')
