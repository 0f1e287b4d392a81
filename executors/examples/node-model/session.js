// Conversations in files, each with a lock: `~/.ao-node-model/<id>.json`.
'use strict'
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const folder = () => path.join(process.env.HOME || os.tmpdir(), '.ao-node-model')
const error = (type, message, retryable = false) =>
  ({ type, message, retryable, side_effects: 'none', origin: 'caller' })

/** Opens a session for one run, or says `{error}`. A new one where `id` is undefined. */
function openSession(id) {
  const name = id ?? crypto.randomUUID()
  const file = path.join(folder(), `${name}.json`)
  if (id !== undefined && !(/^[0-9a-f-]{36}$/.test(id) && fs.existsSync(file))) {
    return { error: error('session_not_found', `no session is called ${JSON.stringify(name.slice(0, 80))}`) }
  }
  fs.mkdirSync(folder(), { recursive: true, mode: 0o700 })
  const lock = `${file}.lock`
  if (!takeLock(lock)) return { error: error('session_busy', `another run is using the session ${name}`, true) }
  const kept = id === undefined ? { messages: [] } : JSON.parse(fs.readFileSync(file, 'utf8'))
  const keep = (contents) => {
    fs.writeFileSync(`${file}.new`, JSON.stringify(contents), { mode: 0o600 })
    fs.renameSync(`${file}.new`, file)
  }
  if (id === undefined) keep(kept)
  return { id: name, kept, keep, close: () => fs.rmSync(lock, { force: true }) }
}

function takeLock(lock) {
  try {
    fs.writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (problem) {
    if (problem.code !== 'EEXIST' || isAlive(Number(fs.readFileSync(lock, 'utf8')))) return false
    fs.rmSync(lock, { force: true }) // whoever had it is gone
    return takeLock(lock)
  }
}

function isAlive(pid) {
  try {
    return pid > 0 && process.kill(pid, 0)
  } catch {
    return false
  }
}

module.exports = { openSession }
