// One line from the host becomes one message, or the refusal of one: everything about its form is
// checked here, and whatever comes, nothing here throws.
import { ErrorCode } from "./errors.js";
import type { Params } from "./types.js";

export type Id = string | number;

export interface Refusal {
  kind: "refusal";
  id: Id | null;
  code: number;
  message: string;
}

export type Request = { kind: "request"; id: Id; method: string; params: unknown };
export type Notification = { kind: "notification"; method: string; params: unknown };
export type Response = { kind: "response"; id: unknown; result?: unknown; error?: unknown };
export type Incoming = Request | Notification | Response | Refusal;

/** What the daemon's own reader takes. */
const DEPTH_MAX = 256;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BLANK = /^[ \t\r]*$/;
const HIGH_ESCAPE = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}/y;
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/y;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function isObject(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Behind the escape that starts at `at`, or -1 if it is half of a surrogate pair. */
function skipEscape(text: string, at: number): number {
  SURROGATE_ESCAPE.lastIndex = HIGH_ESCAPE.lastIndex = at;
  if (!SURROGATE_ESCAPE.test(text)) return at + 2;
  return HIGH_ESCAPE.test(text) ? at + 12 : -1;
}

/** Behind the string whose opening quote is before `at`, or -1. */
function skipString(text: string, at: number): number {
  while (at >= 0 && at < text.length && text.charCodeAt(at) !== QUOTE)
    at = text.charCodeAt(at) === BACKSLASH ? skipEscape(text, at) : at + 1;
  return at < 0 ? -1 : at + 1;
}

/** Of text that is JSON to JavaScript: what kaged would not take of it, too. */
export function isTakenByHost(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; ) {
    switch (text[at++]) {
      case '"':
        at = skipString(text, at);
        if (at < 0) return false;
        break;
      case "{":
      case "[":
        if (++depth > DEPTH_MAX) return false;
        break;
      case "}":
      case "]":
        depth--;
    }
  }
  return true;
}

function refuse(id: Id | null, detail: string): Refusal {
  return { kind: "refusal", id, code: ErrorCode.invalidRequest, message: `invalid request: ${detail}` };
}

export function parseError(detail: string): Refusal {
  return { kind: "refusal", id: null, code: ErrorCode.parse, message: `parse error: ${detail}` };
}

function asId(id: unknown): Id | null {
  return typeof id === "string" || Number.isInteger(id) ? (id as Id) : null;
}

function classify(value: unknown): Incoming {
  if (!isObject(value)) return refuse(null, Array.isArray(value) ? "there are no batches" : "not an object");
  const { method, params, result, error } = value;
  const id = asId(value["id"]);
  const answers = result !== undefined || error !== undefined;
  if (value["jsonrpc"] !== "2.0") return refuse(id, 'jsonrpc is not "2.0"');
  if (method === undefined && answers) return { kind: "response", id: value["id"], result, error };
  if (value["id"] !== undefined && id === null) return refuse(null, "id is neither a string nor an integer");
  if (typeof method !== "string") return refuse(id, "method is not a string");
  if (answers) return refuse(id, "a request has a result or an error");
  if (params !== undefined && !isObject(params) && !Array.isArray(params))
    return refuse(id, "params is neither an object nor an array");
  return id === null ? { kind: "notification", method, params } : { kind: "request", id, method, params };
}

/** Null: a blank line. */
export function readMessage(line: Uint8Array): Incoming | null {
  let value: unknown;
  try {
    const text = decoder.decode(line);
    if (BLANK.test(text)) return null;
    if (!isTakenByHost(text)) return parseError("nested too deep, or half of a surrogate pair");
    value = JSON.parse(text);
  } catch (error) {
    return parseError(error instanceof SyntaxError ? "not JSON" : "not UTF-8");
  }
  return classify(value);
}
