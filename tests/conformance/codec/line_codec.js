// A codec for the kinds `line` and `framing` (SPEC 3), in plain Node. Every other question it calls unsupported.
"use strict";

class NotIJson extends Error {}
const TOKEN = /[ \t\r\n]*(?:([{}[\]:,])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)|(true|false|null)|$)/y;

function decodeObject(bytes) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new NotIJson("not_utf8");
  }
  let at = 0, token;
  const next = () => {
    TOKEN.lastIndex = at;
    token = TOKEN.exec(text) ?? fail("not_json");
    at = TOKEN.lastIndex;
    return token[1] ?? "";
  };
  const members = (close, read, depth) => {
    if (depth > 64) fail("too_deep");
    const found = [];
    for (let mark = next(); mark !== close || found.length; mark = next()) {
      found.push(read());
      const after = next();
      if (after === close) break;
      if (after !== ",") fail("not_json");
    }
    return found;
  };
  const value = (depth) => {
    if (token[1] === "[") return members("]", () => value(depth + 1), depth);
    if (token[1] === "{") return objectOf(members("}", () => pair(depth), depth));
    if (token[2]) return JSON.parse(token[2]).replace(/[\ud800-\udfff]/gu, "\ufffd");
    if (token[3]) return numberOf(token[3], !token[4] && !token[5]);
    return token[6] ? JSON.parse(token[6]) : fail("not_json");
  };
  const pair = (depth) => {
    const key = token[2] ? value(depth) : fail("not_json");
    if (next() !== ":") fail("not_json");
    next();
    return [key, value(depth + 1)];
  };
  next();
  const read = value(1);
  next();
  if (token[0].trim() || at < text.length) fail("not_json");
  return read !== null && typeof read === "object" && !Array.isArray(read) ? read : fail("not_an_object");
}

function fail(reason) {
  throw new NotIJson(reason);
}

function objectOf(pairs) {
  return new Set(pairs.map(([key]) => key)).size === pairs.length ? Object.fromEntries(pairs) : fail("duplicate_key");
}

function numberOf(digits, isInteger) {
  const number = Number(digits);
  if (isInteger) return Number.isSafeInteger(number) ? number : fail("integer_out_of_range");
  return Number.isFinite(number) ? number : fail("number_too_large");
}

function splitLines({ max_line_bytes: limit, chunks_base64: chunks }) {
  const whole = Buffer.concat(chunks.map((chunk) => Buffer.from(chunk, "base64"))).toString("latin1").split("\n");
  const rest = whole.pop();
  const lines = whole.map((line) => line.replace(/\r$/, ""));
  const restIsLong = rest.replace(/\r$/, "").length > limit;
  const told = (line) => (line.length > limit ? { error: "line_too_long" } : { base64: Buffer.from(line, "latin1").toString("base64") });
  return { lines: [...lines, ...(restIsLong ? [rest] : [])].map(told), ended_mid_line: rest !== "" && !restIsLong };
}

function answer(question) {
  if (question.kind === "framing") return splitLines(question);
  if (question.kind !== "line") return { unsupported: true };
  try {
    return { valid: true, read_as: decodeObject(Buffer.from(question.line_base64, "base64")) };
  } catch (error) {
    if (!(error instanceof NotIJson)) throw error;
    return { valid: false, reason: error.message };
  }
}

require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const question = JSON.parse(line);
  console.log(JSON.stringify({ id: question.id, ...answer(question) }));
});
