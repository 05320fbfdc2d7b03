// One folder of memories, and what is known of its files. Each use looks at all files first and reads
// those that are new or changed, so people may edit them at any time. A file that cannot be read is
// listed with the reason, and never written.
import { unlinkSync, type Stats } from "node:fs";
import { basename, join } from "node:path";
import type { Log } from "@kaged/plugin-sdk";
import { formatEntry, readEntry, refreshEntry, type Draft, type Entry } from "./entry.js";
import { enterFolder, isErrno, listNames, look, readText, replaceFile, writeNew } from "./files.js";
import { Broken } from "./front_matter.js";
import { fileNames, newId, numbered } from "./names.js";
import { WordIndex } from "./words.js";

const ENTRIES_MAX = 10_000;
const FILE_BYTES_MAX = 64 * 1024;
const NAMES_MAX = 50_000;
const TEXT_BYTES_MAX = 16 * 1024 * 1024; // of all files together
const TRASH = "trash";
const README = "readme.md";

/** A file as it was when it was last looked at; it has an entry, or a problem. */
export interface Known {
  name: string;
  stamp: string;
  bytes: number;
  entry: Entry | null;
  problem: string | null;
}

export type Good = Known & { entry: Entry };

export class MemoryFull extends Error {}

function isGood(known: Known): known is Good {
  return known.entry !== null;
}

function stampOf({ ino, size, mtimeMs, ctimeMs }: Stats): string {
  return `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
}

function isEntryName(name: string): boolean {
  return name.endsWith(".md") && !name.startsWith(".") && name.toLowerCase() !== README;
}

/** The same words are the same memory, however they are spaced. */
function sameText(text: string): string {
  return text.replace(/\s+/g, " ").trim().toLowerCase();
}

export class Folder {
  readonly words = new WordIndex<Good>();
  readonly #root: string;
  readonly #parts: readonly string[];
  readonly #log: Log;
  readonly #entriesMax: number;
  readonly #known = new Map<string, Known>();
  #byId = new Map<string, Good>();
  #isFull = false;

  constructor(root: string, parts: readonly string[], log: Log, entriesMax = ENTRIES_MAX) {
    this.#root = root;
    this.#parts = parts;
    this.#log = log;
    this.#entriesMax = entriesMax;
  }

  // -- looking

  /** Looks at the files again, and reads what is new. */
  refresh(): this {
    const path = enterFolder(this.#root, this.#parts, false);
    const names = path === null ? [] : this.#list(path);
    const there = new Set(names);
    let changed = false;
    let bytes = 0;
    for (const name of [...this.#known.keys()]) if (!there.has(name)) changed = this.#drop(name);
    for (const name of names) {
      changed = this.#lookAt(path!, name, bytes) || changed;
      bytes += this.#known.get(name)?.bytes ?? 0;
    }
    this.#isFull = names.length === this.#entriesMax || bytes > TEXT_BYTES_MAX - FILE_BYTES_MAX;
    if (changed) this.#sortIds();
    return this;
  }

  /** The newest names first, since they begin with dates. */
  #list(path: string): string[] {
    const { names, more } = listNames(path, NAMES_MAX);
    const entries = names.filter(isEntryName).sort().reverse();
    if ((more || entries.length > this.#entriesMax) && !this.#isFull)
      this.#log.warn(`only the last ${this.#entriesMax} names are looked at`, { folder: path });
    return entries.slice(0, this.#entriesMax);
  }

  #drop(name: string): true {
    const known = this.#known.get(name);
    if (known !== undefined && isGood(known)) this.words.delete(known);
    this.#known.delete(name);
    return true;
  }

  /** Whether anything is new. A folder that is called like a file is no business of ours. */
  #lookAt(path: string, name: string, bytesBefore: number): boolean {
    const there = look(join(path, name));
    if (there === null || there.isDirectory()) return this.#known.has(name) && this.#drop(name);
    const stamp = stampOf(there);
    if (this.#known.get(name)?.stamp === stamp) return false;
    this.#drop(name);
    const known: Known = { name, stamp, bytes: Math.min(there.size, FILE_BYTES_MAX), entry: null, problem: null };
    try {
      if (bytesBefore + there.size > TEXT_BYTES_MAX) throw new Broken("the newer files fill the memory already");
      known.entry = this.#read(path, name, there);
      this.words.add(known as Good, [known.entry.text, known.entry.context ?? "", ...known.entry.tags].join("\n"));
    } catch (error) {
      known.problem = this.#problemOf(error);
      this.#log.warn("a file is left out", { file: name, problem: known.problem });
    }
    this.#known.set(name, known);
    return true;
  }

  #read(path: string, name: string, there: Stats): Entry {
    if (there.isSymbolicLink()) throw new Broken("it is a link, and links are not followed");
    if (!there.isFile()) throw new Broken("it is no regular file");
    return readEntry(readText(join(path, name), FILE_BYTES_MAX), basename(name, ".md"), there.mtimeMs);
  }

  #problemOf(error: unknown): string {
    if (error instanceof Broken) return error.message;
    if (isErrno(error, "ENOENT", "EACCES", "EPERM", "ELOOP", "EIO", "ENXIO")) return (error as Error).message;
    throw error;
  }

  /** One id is one file: of two, as of a copy, the older name has it. */
  #sortIds(): void {
    this.#byId = new Map();
    const byName = [...this.#known.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const known of byName.filter(isGood)) {
      const other = this.#byId.get(known.entry.id);
      known.problem = other === undefined ? null : `it has the id of ${other.name}`;
      if (other === undefined) this.#byId.set(known.entry.id, known);
    }
  }

  get entries(): Good[] {
    return [...this.#byId.values()];
  }

  get problems(): { file: string; problem: string }[] {
    return [...this.#known.values()].filter(({ problem }) => problem !== null)
      .map(({ name, problem }) => ({ file: name, problem: problem! }));
  }

  find(id: string): Good | undefined {
    return this.#byId.get(id);
  }

  // -- changing

  #make(...more: string[]): string {
    const path = enterFolder(this.#root, [...this.#parts, ...more], true);
    if (path === null) throw new Broken("the store is not there");
    return path;
  }

  /** Refreshed if it is known already. */
  add(draft: Draft): { file: Good; isNew: boolean } {
    const same = sameText(draft.text);
    const known = this.entries.find(({ entry }) => sameText(entry.text) === same);
    if (known !== undefined) return { file: this.#renew(known, draft), isNew: false };
    if (this.#isFull) throw new MemoryFull();
    let id = newId();
    while (this.#byId.has(id)) id = newId();
    const name = writeNew(this.#make(), fileNames(draft.created, draft.text, id), formatEntry(id, draft));
    const file = this.refresh().find(id);
    if (file === undefined) throw new Broken(`${name} is gone again`);
    return { file, isNew: true };
  }

  #renew(known: Good, draft: Draft): Good {
    const path = this.#make();
    const text = refreshEntry(readText(join(path, known.name), FILE_BYTES_MAX), draft.created, draft.tags);
    if (text === null || Buffer.byteLength(text) > FILE_BYTES_MAX) return known;
    replaceFile(path, known.name, text);
    return this.refresh().find(known.entry.id) ?? known;
  }

  /** Where it is kept, below the folder; null if it is gone. */
  remove(known: Good, keep: boolean): string | null {
    const path = this.#make();
    const file = join(path, known.name);
    const kept = keep
      ? join(TRASH, writeNew(this.#make(TRASH), numbered(basename(known.name, ".md")), readText(file, FILE_BYTES_MAX)))
      : null;
    unlinkSync(file);
    this.refresh();
    return kept;
  }

  /** A small file of the plugin's own in the folder; null if it cannot be read. */
  readNote(name: string): string | null {
    const path = enterFolder(this.#root, this.#parts, false);
    if (path === null || look(join(path, name)) === null) return null;
    try {
      return readText(join(path, name), FILE_BYTES_MAX);
    } catch (error) {
      this.#log.warn("a file is passed over", { file: name, problem: this.#problemOf(error) });
      return null;
    }
  }

  writeNote(name: string, text: string): void {
    replaceFile(this.#make(), name, text);
  }
}
