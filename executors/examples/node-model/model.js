// Anthropic's Messages API by plain fetch: one question, with retries of what may pass.
'use strict'

const RETRIES = 2
const PATIENCE_SECONDS = 20
const TYPES = {
  400: ['internal_error', false], 401: ['authentication_failed', false], 403: ['permission_denied', false],
  404: ['model_not_found', false], 413: ['context_window_exceeded', false], 429: ['rate_limited', true],
}

class ModelFailed extends Error {
  constructor(type, message, retryable, retryAfter) {
    super(message)
    const when = Number.isFinite(retryAfter) ? { retry_after_seconds: retryAfter } : {}
    this.error = { type, message, retryable, side_effects: 'none', origin: 'provider', ...when }
  }
}

/** Asks once. Resolves to the message; throws ModelFailed, or what `signal` was aborted with. */
async function askOnce(body, env, signal) {
  const base = (env.ANTHROPIC_BASE_URL || 'https://api.anthropic.com').replace(/\/$/, '')
  const key = { 'x-api-key': env.ANTHROPIC_API_KEY ?? '' }
  const headers = { 'content-type': 'application/json', 'anthropic-version': '2023-06-01', ...key }
  let status, text, retryAfter
  try {
    const response = await fetch(`${base}/v1/messages`, { method: 'POST', headers, body: JSON.stringify(body), signal })
    status = response.status
    retryAfter = Number.parseFloat(response.headers.get('retry-after'))
    text = await response.text()
  } catch (problem) {
    if (signal.aborted) throw signal.reason
    const reason = problem.cause?.code ?? problem.message
    throw new ModelFailed('provider_unavailable', `the provider cannot be reached: ${reason}`, true)
  }
  if (status !== 200) {
    const [type, retryable] = TYPES[status] ?? ['provider_unavailable', true]
    throw new ModelFailed(type, `the provider answered ${status}`, retryable, retryAfter)
  }
  try {
    const message = JSON.parse(text)
    if (message.type === 'error' || !Array.isArray(message.content)) throw new SyntaxError('no message')
    return message
  } catch {
    throw new ModelFailed('provider_unavailable', 'the provider answered with something that is no message', true)
  }
}

/** Asks, and asks again after a while where the failure may pass. `asks` hears of each try, `waits` of each delay. */
async function ask(body, env, signal, { asks, waits }) {
  for (let attempt = 1; ; attempt++) {
    asks()
    try {
      return await askOnce(body, env, signal)
    } catch (problem) {
      const seconds = problem.error?.retry_after_seconds ?? attempt * 0.5
      if (!problem.error?.retryable || attempt > RETRIES || seconds > PATIENCE_SECONDS) throw problem
      waits(problem.error, attempt, seconds)
      await pause(seconds, signal)
    }
  }
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000)
    signal.addEventListener('abort', () => reject(clearTimeout(timer) ?? signal.reason), { once: true })
  })
}

module.exports = { ModelFailed, ask, pause }
