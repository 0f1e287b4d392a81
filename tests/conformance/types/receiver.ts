// What a receiver does with the generated types, and what they refuse.
import type { ContentBlock, ControlLine, Event, Log, StandardControlLine, StandardEvent, TextBlock } from './protocol'

const isStandard = (event: Event): event is StandardEvent => !event.event_type.startsWith('_')
const isKnown = (line: ControlLine): line is StandardControlLine => ['cancel', 'turn', 'shutdown'].includes(line.type)
const isText = (block: ContentBlock): block is TextBlock => (block.type ?? 'text') === 'text'

export function shown(event: Event): string {
  if (!isStandard(event)) return event.event_type
  switch (event.event_type) {
    case 'message': return event.content.filter(isText).map((block) => block.text).join('')
    case 'tool_finished': return `${event.tool_name} ${event.status}`
    case 'failure': return event.error.message
    case 'result': return event.result_text ?? JSON.stringify(event.result_data)
    default: return `${event.seq} ${event.event_type}`
  }
}

export function topic(line: ControlLine): unknown {
  return isKnown(line) && line.type === 'turn' ? line.parameters['topic'] : undefined
}

const envelope = { session_id: null, run_id: null, seq: 1, timestamp: '2026-01-01T00:00:00Z' }
const log: Log = { ...envelope, event_type: 'log', level: 'info', message: 'here' }
export const vendor: Event = { ...envelope, event_type: '_acme/progress', percent: 7 }
export const tool: StandardEvent = { ...envelope, event_type: 'tool_started', tool_call_id: 'call_1', tool_name: 'Bash', tool_input: 'ls' }
// @ts-expect-error  no event has this type
export const unknown: StandardEvent = { ...envelope, event_type: 'tool_began', tool_call_id: 'call_1', tool_name: 'Bash' }
// @ts-expect-error  a required field is missing
export const short: StandardEvent = { ...envelope, event_type: 'tool_started', tool_call_id: 'call_1' }
// @ts-expect-error  the envelope is missing
export const bare: StandardEvent = { event_type: 'log', level: 'info', message: 'here' }
// @ts-expect-error  the field is one of another event
export const mixed: StandardEvent = { ...log, tool_name: 'Bash' }
// @ts-expect-error  the value is none of the enumeration
export const loud: StandardEvent = { ...log, level: 'loud' }
