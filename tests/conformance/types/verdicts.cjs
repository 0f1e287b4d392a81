// Compile every schema of a folder with ajv in strict mode, then judge documents by them.
// usage: NODE_PATH=… node verdicts.cjs FOLDER      stdin: [[file, document], …], stdout: [true or false, …]
'use strict'
const { readFileSync, readdirSync } = require('node:fs')
const Ajv = require('ajv/dist/2020').default

const folder = process.argv[2]
const ajv = new Ajv({ strict: true })
const files = readdirSync(folder).filter((file) => file.endsWith('.schema.json'))
for (const file of files) ajv.addSchema(JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')))
const judges = Object.fromEntries(files.map((file) => [file, ajv.getSchema(file)]))
const asked = JSON.parse(readFileSync(0, 'utf8'))
console.log(JSON.stringify(asked.map(([file, document]) => judges[file](document))))
