// Reading and writing in the store. A link is never followed, nothing but regular files is opened, no
// more than a bound is read, and a file is there whole or not at all.
import {
  closeSync, constants, fstatSync, fsyncSync, linkSync, lstatSync, mkdirSync, openSync, opendirSync, readSync,
  renameSync, unlinkSync, writeFileSync, type Stats,
} from "node:fs";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Broken } from "./front_matter.js";

const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const NEW_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

export function isErrno(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException | null)?.code ?? "");
}

/** What is there, the link itself if it is one; null if nothing is. */
export function look(path: string): Stats | null {
  try {
    return lstatSync(path);
  } catch (error) {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

function readAtMost(file: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  let length = 0;
  for (let got = -1; got !== 0 && length < bytes; length += got)
    got = readSync(file, buffer, length, bytes - length, null);
  return buffer.subarray(0, length);
}

/** The text of a regular file of at most so many bytes. */
export function readText(path: string, bytesMax: number): string {
  const file = openSync(path, READ_FLAGS);
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new Broken("it is no regular file");
    const bytes = readAtMost(file, Math.min(stat.size, bytesMax) + 1);
    if (bytes.length > bytesMax) throw new Broken(`it has more than ${bytesMax} bytes`);
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw isErrno(error, "ERR_ENCODING_INVALID_ENCODED_DATA") ? new Broken("it is not UTF-8") : error;
  } finally {
    closeSync(file);
  }
}

/** At most so many names; whether there are more. */
export function listNames(folder: string, namesMax: number): { names: string[]; more: boolean } {
  const names: string[] = [];
  const listing = opendirSync(folder, { bufferSize: 1024 });
  try {
    for (let entry = listing.readSync(); entry !== null; entry = listing.readSync()) {
      if (names.length === namesMax) return { names, more: true };
      names.push(entry.name);
    }
  } finally {
    listing.closeSync();
  }
  return { names, more: false };
}

function isFolder(path: string): boolean {
  const there = look(path);
  if (there !== null && !there.isDirectory()) throw new Broken(`${path} is no folder, and links are not followed`);
  return there !== null;
}

/** The folder below the root, made if that is wanted; null if it, or the root, is not there. */
export function enterFolder(root: string, parts: readonly string[], make: boolean): string | null {
  if (!isFolder(root)) return null;
  let path = root;
  for (const part of parts) {
    path = join(path, part);
    if (isFolder(path)) continue;
    if (!make) return null;
    mkdirSync(path);
  }
  return path;
}

// -- writing ---------------------------------------------------------------------------------------

/** Writes a file beside its place, calls `place` to put it there, and leaves nothing behind. */
function withTemporary(folder: string, text: string, place: (temporary: string) => void): void {
  const temporary = join(folder, `.new-${randomBytes(8).toString("hex")}`);
  const file = openSync(temporary, NEW_FLAGS, 0o644);
  try {
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    place(temporary);
  } finally {
    if (look(temporary) !== null) unlinkSync(temporary);
  }
}

/** Puts a file under the first of the names that is free, and replaces none. */
export function writeNew(folder: string, names: Iterable<string>, text: string): string {
  let taken: string | null = null;
  withTemporary(folder, text, (temporary) => {
    for (const name of names) {
      try {
        linkSync(temporary, join(folder, name));
        taken = name;
        return;
      } catch (error) {
        if (!isErrno(error, "EEXIST")) throw error;
      }
    }
  });
  if (taken === null) throw new Error(`no name is free in ${folder}`);
  return taken;
}

/** Puts a file in the place of another, or where none is. */
export function replaceFile(folder: string, name: string, text: string): void {
  withTemporary(folder, text, (temporary) => renameSync(temporary, join(folder, name)));
}
