// A markdown file as its front matter and its body. Only a small part of YAML is read, so whatever is
// not understood is kept as it is written, and a file in which that cannot be told is refused whole.
//
//   ---                          the first line
//   key: plain text              `key: "quoted"`, `key: 'quoted'`; a comment begins with " #"
//   tags: [one, "two, three"]    a list, also over indented lines, or as lines of "- item"
//   # a comment                  comments, blank and indented lines belong to the key above them
//   ---                          then the body, which may be anything

/** The file cannot be read; says why, for people. */
export class Broken extends Error {}

/** One key with its lines, as they are in the file. Comments before the first key have the key "". */
interface Field {
  key: string;
  lines: string[];
}

const FENCE = /^---[ \t]*\r?$/;
const KEY = /^([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*:(?=[ \t\r]|$)/;
const CONTINUED = /^([ \t]|- |-\r?$)/;
const LIST_ITEM = /^[ \t]*-(?:[ \t]+|$)/;

// -- values ----------------------------------------------------------------------------------------

/** Takes one value off the text; plain ones end where `plain` says. */
function takeScalar(text: string, plain: RegExp): { value: string; rest: string } {
  const quoted = /^"(?:[^"\\]|\\.)*"/.exec(text) ?? /^'(?:[^']|'')*'/.exec(text);
  if (quoted !== null)
    return { value: unquote(quoted[0]), rest: text.slice(quoted[0].length).trimStart() };
  if (/^["'#&*!|>%@`{[]/.test(text)) throw new Broken(`${shown(text)} is not read here`);
  const value = plain.exec(text)?.[0] ?? "";
  return { value: value.trimEnd(), rest: text.slice(value.length).trimStart() };
}

function unquote(quoted: string): string {
  if (quoted.startsWith("'")) return quoted.slice(1, -1).replaceAll("''", "'");
  try {
    return JSON.parse(quoted) as string;
  } catch {
    throw new Broken(`${shown(quoted)} has an escape that is not read here`);
  }
}

/** A comment, or nothing. */
const isRemark = (line: string) => /^\s*(#|$)/.test(line);
const isOver = (rest: string) => rest === "" || rest.startsWith("#");

function readFlow(text: string): string[] {
  const items: string[] = [];
  let rest = text.slice(1).trimStart();
  while (!rest.startsWith("]")) {
    const item = takeScalar(rest, /^[^,\]]*/);
    if (item.value !== "") items.push(item.value);
    rest = item.rest.replace(/^,\s*/, "");
    if (rest === "" || (rest === item.rest && !rest.startsWith("]")))
      throw new Broken(`the list ${shown(text)} has no end`);
  }
  if (!isOver(rest.slice(1).trimStart())) throw new Broken(`there is more behind the list ${shown(text)}`);
  return items;
}

function readText(text: string): string {
  if (isOver(text)) return "";
  const { value, rest } = takeScalar(text, /^(?:(?! #).)*/);
  if (!isOver(rest)) throw new Broken(`there is more behind ${shown(text)}`);
  return value;
}

function shown(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}

/** What a YAML reader would take for a number, a date or a truth value is quoted, too. */
export function formatText(text: string): string {
  const isPlain = /^[\p{L}_][\p{L}\p{N} _./@+-]*$/u.test(text) && !text.endsWith(" ") &&
    !/^(true|false|yes|no|on|off|null|y|n)$/i.test(text);
  if (isPlain) return text;
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function formatList(items: readonly string[]): string {
  return `[${items.map(formatText).join(", ")}]`;
}

// -- documents -------------------------------------------------------------------------------------

export class Document {
  /** Whether the file has front matter at all. */
  readonly hasFields: boolean;
  readonly body: string;
  readonly #fields: Field[];
  readonly #start: string; // a byte order mark
  readonly #end: string; // of lines: "" or "\r"

  private constructor(start: string, fields: Field[] | null, body: string, end = "") {
    this.hasFields = fields !== null;
    this.body = body;
    this.#fields = fields ?? [];
    this.#start = start;
    this.#end = end;
  }

  static of(body: string): Document {
    return new Document("", [], body);
  }

  static parse(text: string): Document {
    const start = text.startsWith("\ufeff") ? "\ufeff" : "";
    const lines = text.slice(start.length).split("\n");
    if (!FENCE.test(lines[0]!)) return new Document(start, null, lines.join("\n"));
    const last = lines.findIndex((line, index) => index > 0 && FENCE.test(line));
    if (last < 0) throw new Broken("its front matter has no end, a line of three dashes");
    const fields: Field[] = [{ key: "", lines: [] }];
    for (let at = 1; at < last; at++) Document.#takeLine(fields, lines[at]!, at + 1);
    return new Document(start, fields, lines.slice(last + 1).join("\n"), lines[0]!.endsWith("\r") ? "\r" : "");
  }

  static #takeLine(fields: Field[], line: string, number: number): void {
    const key = KEY.exec(line)?.[1];
    if (key !== undefined && fields.some((field) => field.key === key))
      throw new Broken(`line ${number}: ${key} is there twice`);
    if (key !== undefined) fields.push({ key, lines: [line] });
    else if (isRemark(line) || (CONTINUED.test(line) && fields.length > 1)) fields.at(-1)!.lines.push(line);
    else throw new Broken(`line ${number} of its front matter is no "key: value"`);
  }

  /** What stands behind the key, in one line; undefined if there is no such key. */
  #value(key: string): { first: string; more: string[] } | undefined {
    const lines = this.#fields.find((field) => field.key === key)?.lines;
    if (key === "" || lines === undefined) return undefined;
    const more = lines.slice(1).filter((line) => !isRemark(line)).map((line) => line.trim());
    return { first: lines[0]!.replace(KEY, "").trim(), more };
  }

  text(key: string): string | undefined {
    const value = this.#value(key);
    if (value === undefined) return undefined;
    if (value.more.length > 0) throw new Broken(`${key} has more than one line`);
    return readText(value.first);
  }

  list(key: string): string[] | undefined {
    const value = this.#value(key);
    if (value === undefined) return undefined;
    const { first, more } = value;
    if (first.startsWith("[")) return readFlow([first, ...more].join(" "));
    if (more.some((line) => !LIST_ITEM.test(line)) || (!isOver(first) && more.length > 0))
      throw new Broken(`${key} is no list`);
    const items = isOver(first) ? more.map((line) => readText(line.replace(LIST_ITEM, "").trim()))
      : readText(first).split(",");
    return items.map((item) => item.trim()).filter((item) => item !== "");
  }

  /** The value as it is to be written: one line, of formatText or formatList. */
  set(key: string, value: string): void {
    const line = `${key}: ${value}${this.#end}`;
    const field = this.#fields.find((each) => each.key === key);
    if (field === undefined) this.#fields.push({ key, lines: [line] });
    else field.lines = [line, ...field.lines.slice(1).filter(isRemark)];
  }

  toString(): string {
    const fence = `---${this.#end}`;
    return this.#start + [fence, ...this.#fields.flatMap((field) => field.lines), fence, this.body].join("\n");
  }
}
