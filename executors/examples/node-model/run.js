// The events of one run: numbered, short enough, with heartbeats, and one end whose exit code agrees.
'use strict'
const fs = require('node:fs')
const { isObject } = require('../node/schema.js')

const CODES = { cancelled: 130, failed: 1 }
const [MOST_ERRORS, ERROR_CHARACTERS] = [3, 150] // so many fit into 4,096 bytes, all escaped
const LONGEST_TIMER = 2 ** 31 - 1 // milliseconds; what is longer would end at once

function writeLine(text) {
  for (let rest = Buffer.from(text + '\n'); rest.length; ) {
    try {
      rest = rest.subarray(fs.writeSync(1, rest))
    } catch (problem) {
      if (problem.code !== 'EAGAIN') throw problem
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10) // a slow reader: try again in 10 ms
    }
  }
}

class Run {
  constructor(asked) {
    const given = (field) => typeof asked[field] === 'string' && asked[field]
    const named = (field, prefix) => asked && (given(field) || prefix + crypto.randomUUID())
    this.names = { session_id: named('session_id', 'ses_'), run_id: named('run_id', 'run_') }
    this.seq = 0
    this.progress = 0
    this.phase = 'idle'
    this.atEnd = () => {}
    const limits = isObject(asked?.limits) ? asked.limits : {}
    this.maxBytes = limits.max_event_bytes >= 4096 ? limits.max_event_bytes : 1048576
    this.heartbeatSeconds = limits.heartbeat_interval_seconds > 0 ? limits.heartbeat_interval_seconds : null
  }
  emit(event_type, fields) {
    const envelope = { event_type, ...this.names, seq: ++this.seq, timestamp: new Date().toISOString() }
    if (event_type !== 'heartbeat') this.progress = this.seq
    writeLine(fit({ ...envelope, ...fields }, this.maxBytes))
    if (this.heartbeatSeconds) {
      clearTimeout(this.timer)
      this.timer = setTimeout(() => this.beat(), Math.min(this.heartbeatSeconds * 1000, LONGEST_TIMER))
    }
  }
  beat() {
    this.emit('heartbeat', { phase: this.phase, last_progress_seq: this.progress })
  }
  succeed(fields) {
    const size = Buffer.byteLength(JSON.stringify(fields.result_data)) // data is never cut; the rest takes room, too
    if (size > this.maxBytes - 1500) {
      this.fail({ type: 'limit_exceeded', message: `the answer does not fit into ${this.maxBytes} bytes` })
    }
    this.emit('result', fields)
    this.atEnd()
    process.exit(0)
  }
  /** Ends the run with an error; `refused` says that it is one before any work. */
  fail(error, { refused = false, usage } = {}) {
    const whole = { retryable: false, side_effects: 'none', origin: 'executor', ...error }
    const status = error.type === 'cancelled' ? 'cancelled' : 'failed'
    this.emit('failure', { status, error: whole, ...(usage ? { usage } : {}) })
    this.atEnd()
    process.exit(refused ? 64 : whole.retryable ? 75 : CODES[status])
  }
}

/** An event as a line that is short enough: a text is cut, of errors the first are left, a failure has no details. */
function fit(event, maxBytes) {
  const whole = JSON.stringify(event)
  if (Buffer.byteLength(whole) < maxBytes) return whole
  if (event.error) {
    const { details, validation_errors, ...short } = event.error
    return JSON.stringify({ ...event, error: { ...short, message: short.message.slice(0, 200).toWellFormed() } })
  }
  if (event.errors) {
    const first = event.errors.slice(0, MOST_ERRORS).map((error) => error.slice(0, ERROR_CHARACTERS).toWellFormed())
    return JSON.stringify({ ...event, errors: first })
  }
  const text = event.result_text ?? event.content?.[0].text ?? ''
  const cut = { ...event, truncated: true, original_bytes: Buffer.byteLength(text) }
  const wholeCharacters = (length) => text.slice(0, length).replace(/[\ud800-\udbff]$/, '')
  const filled = (part) => (event.content ? { content: [{ type: 'text', text: part }] } : { result_text: part })
  const beginning = (length) => JSON.stringify({ ...cut, ...filled(wholeCharacters(length)) })
  let [low, high] = [0, Math.min(text.length, maxBytes)]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (Buffer.byteLength(beginning(middle)) < maxBytes) low = middle
    else high = middle - 1
  }
  return beginning(low)
}

module.exports = { Run, writeLine }
