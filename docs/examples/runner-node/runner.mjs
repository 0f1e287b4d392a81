#!/usr/bin/env node
/**
 * A runner in plain Node 20 or later (protocol/SPEC.md, section 11): it performs one run and prints its events.
 * usage: runner.mjs --executor PATH --blueprint FILE --prompt TEXT --project-dir PATH [--config FILE] [--timeout S] [--idle S]
 * It reads no agent_response and promises no answers of a person.
 */
import { spawn } from 'node:child_process'
import crypto from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import util from 'node:util'
import * as protocol from './protocol.mjs'

const MAX_EVENT_BYTES = 1048576, MAX_INVOCATION_BYTES = 16777216, LOGGED_FAULTS = 20
const START_MS = 10000, CANCEL_MS = 5000, CLOSE_MS = 1000, LEAVE_MS = 5000, GRACE_MS = 10000, DRAIN_MS = 3000
const HEARTBEAT_SECONDS = 10, SILENCE_MS = 6 * HEARTBEAT_SECONDS * 1000, FULL = ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE']
const ALWAYS = ['PATH', 'HOME', 'LANG', 'TZ', 'TMPDIR'], read = (file) => JSON.parse(fs.readFileSync(file, 'utf8'))
const names = ['executor', 'blueprint', 'prompt', 'project-dir', 'config', 'timeout', 'idle']
const { values: args } = util.parseArgs({ options: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) })
const folder = path.resolve(args['project-dir']), { Ending } = protocol

/** What the coordinator receives: the complete events of one run, without secrets (AOX-235, 242, 254, 263). */
class Relay {
  run_id = `run_${crypto.randomUUID()}`
  session_id = `ses_${crypto.randomUUID()}`
  version = '3.0'
  executor = { name: path.basename(args.executor).replace(/^ao-(.+)-exec$/, '$1'), version: 'unknown' }
  secrets = []
  seq = 0
  tools = new Map()
  requests = new Map()
  faults = []

  /** Says an event: as the line that came, if nothing is added to it and its number is right. */
  emit(whole, line) {
    const type = whole.event_type, isEnd = type === 'result' || type === 'failure'
    if (isEnd) this.close()
    if (type !== 'run_started') this.begin()
    const event = { ...whole, run_id: this.run_id, session_id: this.session_id, seq: ++this.seq }
    const bytes = util.isDeepStrictEqual(event, line?.event) ? line.bytes : Buffer.from(JSON.stringify(event))
    const text = this.secrets.reduce((all, form) => all.replaceAll(form, '***'), bytes.toString('latin1'))
    process.stdout.write(Buffer.from(`${text}\n`, 'latin1'))
    if (type === 'tool_started') this.tools.set(event.tool_call_id, { name: event.tool_name, parent: event.parent_tool_call_id })
    if (type === 'tool_finished') this.tools.delete(event.tool_call_id)
    if (type.startsWith('input_')) this.requests.set(event.request_id, type === 'input_requested')
    if (isEnd) this.ended = type
  }

  say(event) {
    this.emit(protocol.complete(event, { ...this, seq: this.seq + 1 }))
  }

  /** Says run_started if the executor has not, and the faults that were found before it. */
  begin() {
    if (!this.seq) this.say({ event_type: 'run_started' })
    for (const fault of this.faults.splice(0)) this.say({ event_type: 'log', level: 'warning', message: fault })
  }

  report(fault) {
    this.count = (this.count ?? 0) + 1
    if (this.count <= LOGGED_FAULTS) this.faults.push(`left out or corrected: ${fault}`)
    if (this.seq) this.begin()
  }

  close() {
    if (this.count > LOGGED_FAULTS) this.faults.push(`${this.count} lines were left out or corrected`)
    for (const id of [...this.tools.keys()].reverse()) this.say({ event_type: 'tool_finished', tool_call_id: id, status: 'cancelled' })
    const open = [...this.requests].filter(([, isOpen]) => isOpen)
    for (const [id] of open) this.say({ event_type: 'input_resolved', request_id: id, outcome: 'cancelled', by: 'policy' })
  }

  fail({ error }) {
    if (!this.ended) this.say({ event_type: 'failure', error })
  }

  /** Throws where a run does not allow an event (SPEC 5.1). */
  check({ event_type: type, run_id, session_id, tool_call_id: call, request_id: request, parent_tool_call_id: parent }) {
    const mayBeNull = type === 'run_started' || (type === 'failure' && this.isUnnamed), isOpen = this.tools.has(call)
    this.isUnnamed = run_id === null && session_id === null && mayBeNull
    if (!this.isUnnamed && (run_id !== this.run_id || session_id !== this.session_id)) throw Error('an event of another run')
    if (parent != null && type !== 'tool_finished' && !this.tools.has(parent)) throw Error(`a part of ${parent}, which is not open`)
    const hasParts = [...this.tools.values()].some((tool) => tool.parent === call)
    if (type === 'tool_started' ? isOpen : type === 'tool_finished' && (!isOpen || hasParts)) throw Error(`${type} of ${call}`)
    const isAsked = this.requests.has(request), isAnswered = !this.requests.get(request)
    if (type === 'input_requested' ? isAsked : type === 'input_resolved' && isAnswered) throw Error(`${type} of ${request}`)
  }
}

const end = (child, signal) => { try { process.kill(-child.pid, signal) } catch { /* nobody is left */ } }
const start = (argv, variables, stdin) => new Promise((resolve, reject) => {
  const env = Object.fromEntries(variables.filter((name) => name in process.env).map((name) => [name, process.env[name]]))
  const child = spawn(args.executor, argv, { cwd: folder, env, detached: true, stdio: [stdin, 'pipe', 'pipe'] })
  child.once('spawn', () => resolve(child))
  const kindOf = ({ code }) => (FULL.includes(code) ? 'resource_exhausted' : 'executor_not_found')
  child.once('error', (error) => reject(new Ending(kindOf(error), error.message, { side_effects: 'none' })))
})

/** Returns how a process left, once its group is gone and its output is read or has had its time. */
const leaving = (child) => new Promise((resolve) => {
  child.stderr.resume()
  child.once('exit', (code, signal) => {
    end(child, 'SIGKILL')
    child.once('close', () => resolve({ code, signal }))
    const giveUp = () => (child.stdout.isPaused() ? setTimeout(giveUp, DRAIN_MS) : [child.stdout, child.stderr].map((pipe) => pipe.destroy()))
    setTimeout(giveUp, DRAIN_MS)
  })
})

/** One process of the executor: it is heard, and stopped by the steps of SPEC 11.3. */
class Attempt {
  constructor(relay, description, contract, deadline) {
    Object.assign(this, { relay, description, contract, deadline, theirs: 0, parts: [], bytes: 0, steps: [] })
    this.begun = this.progress = Date.now()
  }

  async perform(invocation) {
    this.child = await start([], [...ALWAYS, ...(this.description.secrets ?? []), ...(this.description.environment ?? [])], 'pipe')
    this.child.stdin.on('error', () => {}).write(`${JSON.stringify(invocation)}\n`)
    this.child.stdout.on('data', (chunk) => this.receive(chunk)).on('end', () => this.stop('closed stdout'))
    const clock = setInterval(() => this.look(), 50)
    this.child.once('exit', () => clearInterval(clock))
    const { code, signal } = await leaving(this.child)
    if (this.bytes) this.line()
    process.stderr.write(`the executor left with ${signal ?? code}\n`)
    if (!this.hasTerminal) this.relay.fail(new Ending(this.why(signal), `the executor left with ${signal ?? code} and no terminal event`))
  }

  receive(chunk) {
    if (process.stdout.writableNeedDrain) process.stdout.once('drain', () => this.child.stdout.resume()) && this.child.stdout.pause()
    for (let from = 0, next; from < chunk.length; from = next + 1) {
      next = chunk.indexOf(10, from)
      const piece = chunk.subarray(from, next < 0 ? undefined : next)
      this.bytes += piece.length
      if (this.bytes < MAX_EVENT_BYTES || !this.parts.length) this.parts.push(piece)
      if (next < 0) return
      this.line()
    }
  }

  line() {
    const whole = Buffer.concat(this.parts.splice(0)), isLong = this.bytes >= MAX_EVENT_BYTES
    const bytes = whole.subarray(whole.indexOf('\ufeff') === 0 ? 3 : 0, whole.at(-1) === 13 ? -1 : undefined)
    this.bytes = 0
    if (this.hasTerminal || !bytes.toString('latin1').trim()) return
    try {
      this.hasLongEvent ||= isLong && bytes[0] === 123
      if (isLong) throw Error('a line that is too long')
      this.hear({ bytes, event: protocol.decode(new util.TextDecoder('utf-8', { fatal: true }).decode(bytes)) })
    } catch (error) {
      this.hasFault = true
      this.relay.report(error.message)
    }
  }

  hear(line) {
    const event = protocol.complete(line.event, { ...this.relay, seq: this.theirs + 1 }), type = event.event_type
    for (const fault of protocol.problems(protocol.published('event'), event)) throw Error(fault)
    if (type === 'run_started' && this.theirs) throw Error('a second run_started')
    this.relay.check(event)
    if (!this.theirs && type !== 'run_started') this.relay.report(`${type} before run_started`)
    if (event.seq !== this.theirs + 1) this.relay.report(`seq ${event.seq} after ${this.theirs}`)
    this.theirs = event.seq
    this.heard = Date.now()
    if (type === 'heartbeat') this.hasHeartbeats = true
    else if (type !== 'log') this.progress = this.heard
    this.hasTerminal = type === 'result' || type === 'failure'
    if (type === 'session_bound') this.session = event.executor_session_id
    if (this.hasTerminal) this.stop('ended')
    const isStopped = event.status === 'cancelled' && ['deadline_exceeded', 'executor_stalled'].includes(this.reason)
    if (type === 'failure' && isStopped) this.relay.fail(new Ending(this.reason, 'the executor was stopped'))
    else if (this.contract?.isOurs) this.contract.hear(this.relay, event)
    else if (type === 'result' && this.contract?.schema && protocol.check(this.contract.schema, event.result_data).length) {
      this.relay.fail(new Ending('protocol_violation', 'the result does not fit the contract that the executor keeps'))
    } else this.relay.emit(event, line)
  }

  look() {
    const now = Date.now(), isAsking = [...this.relay.requests.values()].includes(true)
    if (!this.theirs && now > this.begun + START_MS) this.stop('executor_start_timeout')
    if (now > this.deadline) this.stop('deadline_exceeded')
    if (this.hasHeartbeats && now > this.heard + SILENCE_MS) this.stop('executor_stalled', true)
    if (now > this.progress + Number(args.idle ?? Infinity) * 1000 && !isAsking) this.stop('executor_stalled')
    if (this.steps.length && now >= this.nextStep) {
      const [act, wait] = this.steps.shift()
      this.nextStep = now + wait
      act()
    }
  }

  stop(reason, isSilent = false) {
    if (this.reason) return
    const isOver = reason === 'ended' || reason === 'closed stdout', { stdin } = this.child
    const send = (signal) => [() => { this.signal = signal; end(this.child, signal) }, signal === 'SIGTERM' ? GRACE_MS : LEAVE_MS]
    const ask = [() => stdin.write('{"type":"cancel"}\n'), CANCEL_MS], close = [() => stdin.end(), isOver ? LEAVE_MS : CLOSE_MS]
    const first = reason === 'executor_start_timeout' ? [] : this.description.capabilities?.cancel && !isOver && !isSilent ? [ask, close] : [close]
    Object.assign(this, { reason, steps: [...first, send('SIGTERM'), send('SIGKILL')], nextStep: 0 })
  }

  /** Returns the reason why there is no terminal event (AOX-243). */
  why(signal) {
    if (this.reason === 'cancelled') return this.signal === 'SIGKILL' ? 'cancel_timeout' : 'cancelled'
    if (this.reason && this.reason !== 'closed stdout') return this.reason
    if (signal && !this.signal) return 'executor_crashed'
    return this.hasLongEvent ? 'limit_exceeded' : this.hasFault ? 'protocol_violation' : 'missing_terminal'
  }
}

let current, isCancelled = false
const cancel = () => { isCancelled = true; current?.stop('cancelled') }
process.on('SIGTERM', cancel).on('SIGINT', cancel)

async function describe() {
  const child = await start(['describe'], ALWAYS, 'ignore'), chunks = []
  current = { stop: () => end(child, 'SIGKILL') }
  child.stdout.on('data', (chunk) => chunks.push(chunk))
  const clock = setTimeout(current.stop, START_MS)
  const { code } = await leaving(child)
  clearTimeout(clock)
  return protocol.descriptionOf(code === 0 ? Buffer.concat(chunks).toString() : '')
}

async function perform(relay, blueprint, config) {
  const parameters = { prompt: args.prompt }, contract = protocol.checkOrder(blueprint, parameters)
  if (!fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new Ending('workspace_error', `${folder} is not a directory`, { side_effects: 'none', origin: 'environment' })
  }
  const order = { run_id: relay.run_id, session_id: relay.session_id, parameters, project_dir: folder, executor_config: config }
  const size = Buffer.byteLength(JSON.stringify({ ...order, agent_blueprint: blueprint }))
  if (size > MAX_INVOCATION_BYTES - 65536) throw new Ending('invocation_too_large', `${size} bytes`, { details: { limit_bytes: MAX_INVOCATION_BYTES } })
  const deadline = Date.now() + Number(args.timeout ?? Infinity) * 1000, description = await describe().catch((error) => error)
  if (isCancelled) throw new Ending('cancelled', 'cancelled before the start', { side_effects: 'none' })
  if (description instanceof Error) throw description
  relay.executor = description.executor
  relay.secrets = (description.secrets ?? []).flatMap((name) => protocol.formsOf(process.env[name] ?? ''))
  relay.version = protocol.versionFor(description)
  protocol.checkAgainst(description, blueprint, contract, config)
  const said = protocol.requestOf(blueprint, parameters, contract), control = { stdin: 'open' }, limits = { heartbeat_interval_seconds: HEARTBEAT_SECONDS }
  let invocation = { schema_version: relay.version, mode: 'start', ...order, ...said, control, limits }
  while (invocation) {
    current = new Attempt(relay, description, contract, deadline)
    await current.perform(invocation)
    const canResume = description.capabilities?.resume && current.session && !isCancelled && Date.now() < deadline
    const prompt = contract?.isOurs && !relay.ended && contract.judge(relay, canResume)
    invocation = prompt && { ...invocation, mode: 'resume', executor_session_id: current.session, parameters: { prompt }, prompt }
  }
}

const relay = new Relay(), blueprint = protocol.withoutNulls(read(args.blueprint)), config = args.config ? read(args.config) : {}
await perform(relay, blueprint, config).catch((error) => relay.fail(error.error ? error : new Ending('internal_error', String(error.stack))))
process.stdout.write('', () => process.exit(relay.ended === 'result' ? 0 : 1))
