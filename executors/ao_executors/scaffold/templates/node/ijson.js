// One line to one object as I-JSON wants it (SPEC 3): JSON.parse would take a key twice, any integer and any depth.
'use strict'
const { TextDecoder } = require('node:util')

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y
const WORDS = { t: ['true', true], f: ['false', false], n: ['null', null] }
const ORDER = Symbol('the keys as they stood; JavaScript would put 10 before a')

/** The object on a line. Throws SyntaxError, or TypeError for what is no UTF-8. */
function parseLine(bytes) {
  const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes) // drops a byte-order mark
  let at = 0

  function fail(what) {
    throw new SyntaxError(`${what} at character ${at}`)
  }
  function next() {
    while (text[at] === ' ' || text[at] === '\t' || text[at] === '\r' || text[at] === '\n') at++
    return text[at]
  }
  function take(mark) {
    if (next() !== mark) fail(`expected ${mark}`)
    at++
  }
  function readString() {
    const start = at
    do {
      at = text.indexOf('"', at + 1)
      if (at < 0) fail('a string without an end')
      var slashes = 0
      while (text[at - 1 - slashes] === '\\') slashes++
    } while (slashes % 2)
    const quoted = text.slice(start, ++at)
    return /[\\\x00-\x1f]/.test(quoted) ? JSON.parse(quoted).toWellFormed() : quoted.slice(1, -1)
  }
  function readNumber() {
    NUMBER.lastIndex = at
    const [digits, fraction, exponent] = NUMBER.exec(text) ?? fail('not JSON')
    const number = Number(digits)
    if (!Number.isFinite(number)) fail('a number too large')
    if (!fraction && !exponent && !Number.isSafeInteger(number)) fail('an integer out of range')
    at += digits.length
    return number
  }
  function readObject(depth) {
    const object = Object.create(null)
    const keys = (object[ORDER] = [])
    for (take('{'); next() !== '}'; ) {
      if (keys.length) take(',')
      if (next() !== '"') fail('expected a key')
      const key = readString()
      if (key in object) fail('a key twice')
      take(':')
      keys.push(key)
      object[key] = readValue(depth + 1)
    }
    at++
    return object
  }
  function readArray(depth) {
    const array = []
    for (take('['); next() !== ']'; ) {
      if (array.length) take(',')
      array.push(readValue(depth + 1))
    }
    at++
    return array
  }
  function readValue(depth) {
    const mark = next()
    if (mark === '"') return readString()
    if ((mark === '{' || mark === '[') && depth > 64) fail('more than 64 levels')
    if (mark === '{') return readObject(depth)
    if (mark === '[') return readArray(depth)
    const [word, value] = WORDS[mark] ?? []
    if (!word) return readNumber()
    if (!text.startsWith(word, at)) fail('not JSON')
    at += word.length
    return value
  }

  const value = readValue(1)
  if (next() !== undefined) fail('more than one value')
  if (typeof value !== 'object' || value === null || Array.isArray(value)) fail('no object')
  return value
}

/** The fields of an object in the order in which they stood. */
function entries(object) {
  return (object[ORDER] ?? Object.keys(object)).map((key) => [key, object[key]])
}

/** Compact JSON, with the keys in the order in which they stood. */
function toJson(value) {
  if (Array.isArray(value)) return `[${value.map(toJson).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${entries(value).map(([key, item]) => `${JSON.stringify(key)}:${toJson(item)}`).join()}}`
}

module.exports = { parseLine, entries, toJson }
