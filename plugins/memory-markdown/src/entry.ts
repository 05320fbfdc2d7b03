// What a memory is, and how it stands in its file. People edit these files: all but the text may be
// missing, and what is there but not known is kept.
import { Broken, Document, formatList, formatText } from "./front_matter.js";

export interface Entry {
  id: string;
  /** Milliseconds since 1970. */
  created: number;
  updated: number;
  tags: string[];
  /** Comes first in what is given to the model unasked. */
  pinned: boolean;
  context: string | null;
  agent: string | null;
  session: string | null;
  source: string | null;
  text: string;
}

export type Draft = Omit<Entry, "id" | "updated" | "pinned"> & { project: string };

const ID_CHARS_MAX = 255;
const DATE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;

function readDate(document: Document, key: string): number | undefined {
  const text = document.text(key);
  if (text === undefined || text === "") return undefined;
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/.test(text.slice(10));
  const time = DATE.test(text) ? Date.parse(text.replace(" ", "T") + (text.length > 10 && !hasZone ? "Z" : "")) : NaN;
  if (Number.isNaN(time)) throw new Broken(`${key} is no date: ${JSON.stringify(text.slice(0, 40))}`);
  return time;
}

function readPinned(document: Document): boolean {
  const text = document.text("pinned") ?? "false";
  if (!/^(true|false|yes|no)$/i.test(text)) throw new Broken("pinned is neither true nor false");
  return /^(true|yes)$/i.test(text);
}

/** `name` and `time` stand for an id and a date that the file does not have. */
export function readEntry(content: string, name: string, time: number): Entry {
  const document = Document.parse(content);
  const text = document.body.trim();
  if (text === "") throw new Broken("it has no text");
  const created = readDate(document, "created") ?? time;
  const readLine = (key: string) => cleanLine(document.text(key) ?? "") || null;
  return {
    id: cleanLine(document.text("id") ?? "").slice(0, ID_CHARS_MAX) || name,
    created,
    updated: readDate(document, "updated") ?? created,
    tags: [...new Set((document.list("tags") ?? []).map(cleanLine))],
    pinned: readPinned(document),
    context: readLine("context"),
    agent: readLine("agent"),
    session: readLine("session"),
    source: readLine("source"),
    text,
  };
}

export function formatTime(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
}

export function formatEntry(id: string, draft: Draft): string {
  const document = Document.of(`\n${draft.text}\n`);
  document.set("id", id);
  document.set("created", formatTime(draft.created));
  document.set("updated", formatTime(draft.created));
  document.set("tags", formatList(draft.tags));
  document.set("project", formatText(draft.project));
  for (const key of ["agent", "session", "source", "context"] as const) {
    const value = draft[key];
    if (value !== null) document.set(key, formatText(value));
  }
  return document.toString();
}

/** The file's content with a new date and tags, all else as it was; null if there is nothing to set. */
export function refreshEntry(content: string, now: number, tags: readonly string[]): string | null {
  const document = Document.parse(content);
  if (!document.hasFields) return null;
  const has = document.list("tags") ?? [];
  document.set("updated", formatTime(now));
  if (tags.some((tag) => !has.includes(tag))) document.set("tags", formatList([...new Set([...has, ...tags])]));
  return document.toString();
}

/** Text as it may stand in a file: whole characters, no control characters but newline and tab. */
export function cleanText(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "")
    .replace(/\p{Surrogate}/gu, "\ufffd").trim();
}

/** No more than so many, and no half of a character. */
export function cutText(text: string, chars: number): string {
  return text.slice(0, chars).replace(/[\ud800-\udbff]$/, "");
}

export function cleanLine(text: string): string {
  return cleanText(text).replace(/\s+/g, " ");
}
