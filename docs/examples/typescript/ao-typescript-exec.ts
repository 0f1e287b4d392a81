// An executor of the AO protocol 3.0 in TypeScript: one JSON line in, JSON lines out. Put your agent into `answer`.
// `./protocol` has the types of the wire, which json-schema-to-typescript generates from `protocol.schema.json`.
import { writeSync } from 'node:fs'
import type { Description, ErrorInfo, Invocation, StandardEvent } from './protocol'

type Stamp = 'session_id' | 'run_id' | 'seq' | 'timestamp'
type Body<E = StandardEvent> = E extends StandardEvent ? Omit<E, Stamp> : never // each event without its stamp
const DESCRIPTION: Description = { schema_versions: ['3.0'], executor: { name: 'typescript', version: '0.1.0' } }
const NAMES = { session_id: null as string | null, run_id: null as string | null }
let seq = 0

async function answer(prompt: string): Promise<string> { // an exception becomes a failure
  return prompt
}

const write = (document: Description | StandardEvent) => writeSync(1, JSON.stringify(document) + '\n')
const emit = (body: Body) => write({ ...body, ...NAMES, seq: ++seq, timestamp: new Date().toISOString() })

function fail(type: string, message: string, origin: ErrorInfo['origin'], code: number): never {
  const error: ErrorInfo = { type, message, origin, retryable: false, side_effects: 'none' }
  emit({ event_type: 'failure', status: 'failed', error })
  process.exit(code)
}

async function readLine(): Promise<string> { // readline would also end a line at U+2028, which JSON allows in a text
  let line = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    line += chunk
    if (chunk.includes('\n')) break
  }
  return line.split('\n', 1)[0] ?? ''
}

async function run(): Promise<void> {
  const invocation = JSON.parse(await readLine()) as Invocation // not JSON: a stack trace, and exit 1
  NAMES.session_id = invocation.session_id ?? null
  NAMES.run_id = invocation.run_id ?? null
  emit({ event_type: 'run_started', schema_version: '3.0', executor: DESCRIPTION.executor })
  const { schema_version, prompt } = invocation
  if (!schema_version.startsWith('3.')) fail('unsupported_schema_version', `${schema_version} is not 3.x`, 'caller', 64)
  if (!prompt) fail('invalid_invocation', 'there is no prompt', 'caller', 64)
  const text = await answer(prompt).catch((error) => fail('internal_error', String(error), 'executor', 1))
  emit({ event_type: 'message', message_id: 'msg_1', role: 'assistant', content: [{ type: 'text', text }] })
  emit({ event_type: 'result', result_text: text, result_data: null, stop_reason: 'end_turn' })
}

console.log = console.error // stdout is for events only
if (process.argv.length === 2) run().then(() => process.exit(0))
else if (process.argv[2] === 'describe') write(DESCRIPTION)
else process.exit(2)
