// Finds JSON in an answer (SPEC 9.4): whole values only, and the best rank first.
'use strict'
const { parseLine } = require('../node/ijson.js')
const { problems } = require('../node/schema.js')

/** The value of a text that is I-JSON from end to end, as `[value]`, or `[]`. */
function wholeValue(text) {
  try {
    return [parseLine(Buffer.from(`{"value":${text.trim()}}`)).value]
  } catch {
    return []
  }
}

/** Where a bracket is closed that is opened at `start`; -1 where it never is. */
function closing(text, start) {
  let depth = 0
  for (let at = start, quoted = false; at < text.length; at++) {
    const mark = text[at]
    if (quoted && mark === '\\') at++
    else if (mark === '"') quoted = !quoted
    else if (!quoted && (mark === '{' || mark === '[')) depth++
    else if (!quoted && (mark === '}' || mark === ']') && --depth === 0) return at
  }
  return -1
}

/** The outermost values in prose. What is never closed was cut off, and nothing is taken from inside it. */
function bareValues(text) {
  const found = []
  for (let at = 0; at < text.length; at++) {
    if (text[at] !== '{' && text[at] !== '[') continue
    const end = closing(text, at)
    if (end < 0) break
    found.push(...wholeValue(text.slice(at, end + 1)))
    at = end
  }
  return found
}

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)\n([^]*?)\n? {0,3}\1[`~]*[ \t]*$/gm
const NAMES = [
  'answer', 'final', 'final[-_]answer', 'final[-_]output', 'final[-_]result', 'json', 'json[-_]output', 'output',
  'response', 'result', 'structured[-_]output', 'structured[-_]response',
]
const TAG = new RegExp(`<(${NAMES.join('|')})>([^]*?)</\\1>`, 'gi')

function ranked(text) {
  const fences = { plain: [], other: [] }
  const prose = text.replace(FENCE, (_all, _mark, tag, body) => {
    fences[/^(json|)$/i.test(tag.trim()) ? 'plain' : 'other'].push(...wholeValue(body))
    return '\n'
  })
  const tags = [...prose.matchAll(TAG)].flatMap(([, , body]) => wholeValue(body))
  return [wholeValue(text), tags, fences.plain, bareValues(prose), fences.other]
}

/** Whether two values are equal, in whatever order their keys are. */
const same = (one, other) => problems(one, { enum: [other] }, '$').next().done

/** The last valid value of the best rank, or what is wrong with the last value of the best rank that has one. */
function bestAnswer(text, judge, exact) {
  const ranks = exact ? [wholeValue(text)] : ranked(text.replace(/^[\s\ufeff\u200b]+/, ''))
  for (const values of ranks) {
    const valid = values.filter((value) => judge(value).length === 0)
    const value = valid.at(-1)
    if (valid.length) return { value, ambiguous: valid.some((other) => !same(other, value)) }
  }
  const [first] = ranks.filter((values) => values.length)
  return { errors: first ? judge(first.at(-1)) : ['$: the answer holds no whole JSON value'] }
}

module.exports = { bestAnswer, same }
