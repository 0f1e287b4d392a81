// One run: refuse it, or ask the model until its contract is kept.
'use strict'
const { spawnSync } = require('node:child_process')
const { agentText, refusal } = require('../node/judge.js')
const { object, problems } = require('../node/schema.js')
const { Refused, askAgain, assess, demand, invalid, resolveContract } = require('./contract.js')
const { ModelFailed, ask, pause } = require('./model.js')
const { openSession } = require('./session.js')

const CUT_OFF = ['max_tokens', 'model_context_window_exceeded']
const CONFIG = {
  ...object({ model: { type: 'string', minLength: 1 }, max_tokens: { type: 'integer', minimum: 1 } }),
  additionalProperties: false,
}

/** The contract of an invocation that can be performed. Throws Refused. */
function prepare(asked) {
  const isResume = asked.mode === 'resume'
  const fresh = { ...asked, mode: isResume ? 'start' : asked.mode }
  if (isResume && !asked.executor_session_id) throw invalid(['$: executor_session_id is missing'])
  if (isResume && asked.agent_blueprint) fresh.agent_blueprint = { ...asked.agent_blueprint, parameters_schema: null }
  const problem = refusal(fresh)
  if (problem) throw Object.assign(new Refused(problem.type, problem.message), { error: problem })
  const found = [...problems(asked.executor_config ?? {}, CONFIG, '$', true)]
  const violations = found.map((text) => /^(?<pointer>.*?): (?<message>.*)$/s.exec(text).groups)
  if (found.length) throw new Refused('invalid_executor_config', found.join('; '), { violations })
  return resolveContract(asked, process.env)
}

async function perform(asked, run, contract, signal) {
  if (process.env.AO_CONFORM_NOISE) {
    console.log('noise of a library')
    spawnSync('echo', ['noise of a program'], { stdio: ['ignore', 2, 2] })
  }
  const servers = Object.keys(asked.agent_blueprint?.mcp_servers ?? {})
  if (servers.length) {
    const message = `no MCP server is spoken to here: ${servers}`
    return run.fail({ type: 'mcp_server_unavailable', message, origin: 'environment' })
  }
  const session = openSession(asked.mode === 'resume' ? asked.executor_session_id : undefined)
  if (session.error) return run.fail(session.error)
  run.atEnd = session.close
  const model = asked.executor_config?.model ?? 'claude-sonnet-4-5'
  run.emit('session_bound', { executor_session_id: session.id, project_dir: asked.project_dir ?? process.cwd(), model })
  const isResume = asked.mode === 'resume'
  const text = isResume ? asked.parameters.prompt : agentText(asked)
  const own = asked.agent_blueprint?.system_prompt ?? session.kept.system ?? ''
  const wanted = contract && contract.strategy !== 'extract' ? demand(contract) : ''
  const system = contract?.strategy === 'system_prompt' ? [own.trim() && own, wanted].filter(Boolean).join('\n\n') : own
  const question = contract?.strategy === 'prompt' ? `${text}\n\n${wanted}` : text
  const talk = { messages: [...session.kept.messages, { role: 'user', content: question }], system, own }
  const linger = Number(process.env.AO_CONFORM_LINGER_SECONDS ?? 0)
  if (linger) await pause(linger, signal)
  await converse({ asked, run, contract, signal, session, talk, model })
}

async function converse({ asked, run, contract, signal, session, talk, model }) {
  const usage = { input_tokens: 0, output_tokens: 0 }
  const limits = asked.limits ?? {}
  const asks = () => (run.phase = 'model')
  const waits = (error, attempt, delay_seconds) => {
    run.phase = 'retry_wait'
    run.emit('retry_scheduled', { error: { type: error.type, message: error.message }, attempt, delay_seconds })
  }
  for (let attempt = 1; ; attempt++) {
    if (attempt > (limits.max_turns ?? Infinity)) {
      const message = `max_turns ${limits.max_turns} was reached`
      return run.fail({ type: 'limit_exceeded', message, origin: 'caller' }, { usage })
    }
    const body = { model, max_tokens: asked.executor_config?.max_tokens ?? 4096, messages: talk.messages }
    const whole = talk.system ? { ...body, system: talk.system } : body
    const answer = await ask(whole, process.env, signal, { asks, waits })
    for (const name of Object.keys(usage)) usage[name] += answer.usage?.[name] ?? 0
    run.emit('usage', usage)
    const text = answer.content.filter((block) => block.type === 'text').map((block) => block.text).join('')
    const { stop_reason: reason = 'end_turn' } = answer
    if (reason === 'refusal') {
      return run.fail({ type: 'content_refused', message: 'the model refuses to answer', origin: 'model' }, { usage })
    }
    if (contract && CUT_OFF.includes(reason)) {
      const message = `the answer was cut off: ${reason}`
      return run.fail({ type: 'output_truncated', message, origin: 'model' }, { usage })
    }
    talk.messages.push({ role: 'assistant', content: text || '(nothing)' })
    session.keep({ messages: talk.messages, system: talk.own })
    const verdict = contract && assess(text, contract)
    if (contract) {
      const errors = verdict.errors ?? []
      const retries_left = contract.retries + 1 - attempt
      run.emit('output_validation', { attempt, valid: !verdict.errors, errors, retries_left })
    }
    if (!verdict?.errors) return finish({ run, contract, verdict, answer, text, usage, reason, attempt })
    if (attempt > contract.retries) return giveUp(run, contract, verdict.errors, usage)
    talk.messages.push({ role: 'user', content: askAgain(verdict.errors, text, contract) })
  }
}

function finish({ run, contract, verdict, answer, text, usage, reason, attempt }) {
  const content = [{ type: 'text', text }]
  run.emit('message', { message_id: answer.id ?? crypto.randomUUID(), role: 'assistant', content })
  if (!contract) return run.succeed({ result_text: text, result_data: null, stop_reason: reason, usage })
  const first = contract.strategy === 'extract' ? 'nothing' : contract.strategy
  const sent = [first, ...Array(attempt - 1).fill('re_prompt')]
  const output = { schema_source: contract.source, retry_count: attempt - 1, ambiguous: verdict.ambiguous,
    strategy: contract.strategy, sent, delivered_by: 'text' }
  run.succeed({ result_text: null, result_data: verdict.value, stop_reason: reason, output, usage })
}

function giveUp(run, contract, errors, usage) {
  const type = contract.source === 'blueprint' ? 'output_schema_validation_failed' : 'schema_validation_failed'
  const message = `the answer does not keep its contract: ${errors[0]}`
  run.fail({ type, message, origin: 'model', validation_errors: errors }, { usage })
}

module.exports = { CONFIG, ModelFailed, perform, prepare }
