// Output contracts (SPEC 9): which one holds, how the model is asked, and what its answer is worth.
'use strict'
const { flaws, notJudged, object, problems } = require('../node/schema.js')
const { bestAnswer, same } = require('./extract.js')

const STRATEGIES = ['system_prompt', 'prompt', 'extract']
const OPTIONS = {
  ...object({
    max_retries: { type: 'integer', minimum: 0 }, extract_json: { type: 'boolean' },
    strict_json_only: { type: 'boolean' }, validation_mode: { enum: ['strict', 'lenient'] },
    strategy: { enum: [...STRATEGIES, 'native', 'auto'] },
  }),
  additionalProperties: false,
}

class Refused extends Error {
  constructor(type, message, details) {
    super(message)
    const more = details ? { details } : {}
    this.error = { type, message, retryable: false, side_effects: 'none', origin: 'caller', ...more }
  }
}
const invalid = (found) => new Refused('invalid_invocation', found.join('; '), { problems: found })
const lacking = (missing) =>
  new Refused('unsupported_capability', `not served here: ${missing}`, { missing: [missing] })

/** The contract of an invocation, or null. Throws Refused. */
function resolveContract(asked, env) {
  const blueprint = asked.agent_blueprint ?? {}
  const given = asked.output_schema_options ?? {}
  checkOptions(given)
  if (blueprint.output_format) throw lacking('output_schema.formats:agent_response')
  const inline = asked.output_schema
  if (blueprint.output_schema) {
    if (inline && !same(inline, blueprint.output_schema)) {
      throw invalid(['$.output_schema: the blueprint has another contract'])
    }
    const others = Object.keys(given).filter((option) => option !== 'strategy')
    const place = (option) => `$.output_schema_options.${option}: the blueprint has a contract`
    if (others.length) throw invalid(others.map(place))
    return contract(asked, blueprint.output_schema, 'blueprint', { max_retries: 1, ...given })
  }
  const defaults = blueprint.default_output_schema_options ?? {}
  const options = inline ? given : { ...defaults, ...given }
  checkOptions(options)
  const schema = inline ?? blueprint.default_output_schema
  if (!schema) return null
  const retries = options.strategy === 'extract' ? 0 : Number(env.SCHEMA_ENFORCEMENT_MAX_RETRIES ?? 2)
  const extract = (env.SCHEMA_ENFORCEMENT_EXTRACT_JSON ?? 'true').toLowerCase() !== 'false'
  const filled = { max_retries: retries, extract_json: extract, ...options }
  return contract(asked, schema, inline ? (asked.output_schema_source ?? 'inline') : 'default', filled)
}

function checkOptions(options) {
  const path = '$.output_schema_options'
  const found = [...problems(options, OPTIONS, path, true)]
  if (options.max_retries > 10) found.push(`${path}.max_retries: is more than 10`)
  const { strict_json_only: strict, extract_json: extracts, validation_mode: mode } = options
  if (strict && extracts) found.push(`${path}: strict_json_only contradicts extract_json`)
  if (strict && mode === 'lenient') found.push(`${path}.validation_mode: contradicts strict_json_only`)
  if ((strict || extracts === false) && options.strategy === 'extract') found.push(`${path}.strategy: extract contradicts exact JSON`)
  if (found.length) throw invalid(found)
}

function contract(asked, schema, source, options) {
  const wrong = schema.$ref === '#' ? ['$.$ref: refers to itself without end'] : flaws(schema)
  if (wrong.length) throw new Refused('invalid_output_schema', wrong.join('; '), { problems: wrong })
  const [unknown] = notJudged(schema)
  if (unknown) throw lacking(`output_schema:${unknown}`)
  if (options.strategy === 'native') throw lacking('output_schema.strategies:native')
  if (options.validation_mode === 'lenient') throw lacking('output_schema.validation_mode:lenient')
  let strategy = STRATEGIES.includes(options.strategy) ? options.strategy : 'system_prompt'
  if (asked.mode === 'resume' && strategy === 'system_prompt') strategy = 'prompt'
  const exact = options.strict_json_only || options.extract_json === false
  return { schema, source, strategy, exact, retries: options.max_retries }
}

/** The demand as the model reads it (SPEC 9.3). */
function demand({ schema }) {
  const json = JSON.stringify(schema, null, 2)
  const longest = Math.max(2, ...(json.match(/`+/g) ?? []).map((run) => run.length))
  const fence = '`'.repeat(longest + 1)
  return [
    '## Required Output Format', 'You MUST provide structured output as JSON conforming to this schema:',
    `${fence}json\n${json}\n${fence}`,
    'Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text.',
  ].join('\n\n')
}

/** What is found in an answer: `{value, ambiguous}`, or `{errors}`. */
function assess(text, { schema, exact }) {
  const judge = (value) => (same(value, schema) ? ['$: this is the schema itself'] : [...problems(value, schema, '$')])
  return bestAnswer(text, judge, exact)
}

/** The message that asks again (SPEC 9.5). */
function askAgain(errors, text, { schema, source }) {
  const listed = errors.slice(0, 10).map((error) => `- ${error.slice(0, 300)}`).join('\n')
  const [answer, form] = [text.slice(0, 1000), JSON.stringify(schema).slice(0, 2000)]
  const shown = source === 'blueprint' ? [] : [`Your answer was:\n${answer}`, `The schema is:\n${form}`]
  const end = 'Answer with the corrected JSON only, not with the schema. If you cannot answer, say so in words.'
  const parts = [`Your answer does not fit the required format:\n${listed}`, ...shown, end]
  return `<output-validation-error>\n${parts.join('\n\n')}\n</output-validation-error>`
}

module.exports = { Refused, STRATEGIES, askAgain, assess, demand, invalid, resolveContract }
