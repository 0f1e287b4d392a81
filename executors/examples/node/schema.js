// The part of JSON Schema Draft-7 that this executor judges: small, and never slow.
'use strict'
const { entries, toJson } = require('./ijson.js')

const at = (key) =>
  typeof key === 'number' ? `[${key}]` : /^[A-Za-z_][\w-]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
const kindOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value)
const is = (kind, value) => (kind === 'integer' ? Number.isInteger(value) : kindOf(value) === kind)
const isObject = (value) => kindOf(value) === 'object'

/** Whether two values are equal; the order of an object's keys says nothing. */
function same(one, other) {
  if (kindOf(one) !== kindOf(other)) return false
  if (typeof one !== 'object' || one === null) return one === other
  const keys = Object.keys(one)
  return keys.length === Object.keys(other).length && keys.every((key) => key in other && same(one[key], other[key]))
}

/** Each way in which a value breaks a schema, as `path: message`. An own schema misses a field where it would be. */
function* problems(value, schema, path, own) {
  const kinds = schema.type === undefined ? [] : [schema.type].flat()
  if (kinds.length && !kinds.some((kind) => is(kind, value))) {
    yield `${path}: is ${kindOf(value)}, expected ${kinds.join(' or ')}`
  }
  if (schema.enum && !schema.enum.some((item) => same(item, value))) {
    yield `${path}: is none of ${toJson(schema.enum).slice(0, 200)}`
  }
  if (typeof value === 'string' && schema.minLength > 0) {
    const length = [...value.slice(0, 2 * schema.minLength)].length // in characters; a pair of surrogates is one
    if (length < schema.minLength) yield `${path}: is too short`
  }
  if (typeof value === 'number' && (value < schema.minimum || value <= schema.exclusiveMinimum)) {
    yield `${path}: is too small`
  }
  if (isObject(value)) yield* fieldProblems(value, schema, path, own)
  if (Array.isArray(value) && schema.items) {
    for (const [index, item] of value.entries()) yield* problems(item, schema.items, path + at(index), own)
  }
}
function* fieldProblems(value, { required = [], properties = {}, additionalProperties: rest }, path, own) {
  for (const key of required) if (!(key in value)) yield `${path}${own ? at(key) : ''}: '${key}' is missing`
  for (const [key, item] of entries(value)) {
    if (Object.hasOwn(properties, key)) yield* problems(item, properties[key], path + at(key), own)
    else if (rest === false) yield `${path}: '${key}' is not allowed`
    else if (isObject(rest)) yield* problems(item, rest, path + at(key), own)
  }
}

const object = (properties, ...required) => ({ type: 'object', properties, required })
const KINDS = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']
const text = { type: 'string' }
const texts = { type: 'array', items: text }
const part = { type: ['object', 'boolean'] }
const SCHEMA = object({
  type: { type: 'array', items: { enum: KINDS } }, enum: { type: 'array' }, minLength: { type: 'integer', minimum: 0 },
  minimum: { type: 'number' }, exclusiveMinimum: { type: 'number' }, required: texts,
  properties: { type: 'object', additionalProperties: part }, additionalProperties: part,
  items: { type: ['object', 'boolean', 'array'] },
  title: text, description: text, default: {}, examples: { type: 'array' }, // these and the next demand nothing
  format: text, $schema: text, $id: text, $comment: text,
})
const parts = ({ properties, items, additionalProperties }) =>
  [...(isObject(properties) ? Object.values(properties) : []), ...[items, additionalProperties].filter(isObject)]

/** What makes a schema none, as `path: message`. */
function flaws(schema) {
  const found = `${schema.$ref ?? '#'}`.startsWith('#') ? [] : ['$.$ref: refers to something outside']
  const listed = 'type' in schema ? { ...schema, type: [schema.type].flat() } : schema
  if (listed.type?.length === 0) found.push('$.type: names no type')
  for (const key of ['type', 'required']) {
    const names = Array.isArray(listed[key]) ? listed[key] : []
    if (new Set(names).size < names.length) found.push(`$.${key}: has a name twice`)
  }
  return [...found, ...problems(listed, SCHEMA, '$', true), ...parts(schema).filter(isObject).flatMap(flaws)]
}

/** The keywords of a schema that are not judged here. */
function notJudged(schema) {
  if (!isObject(schema)) return ['boolean schema']
  const unknown = Object.keys(schema).filter((keyword) => !Object.hasOwn(SCHEMA.properties, keyword))
  if ('items' in schema && !isObject(schema.items)) unknown.push('items')
  return [...unknown, ...parts(schema).flatMap(notJudged)]
}

module.exports = { at, flaws, isObject, notJudged, object, problems }
