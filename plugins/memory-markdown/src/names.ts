// Names of files and ids. Whatever a text has in it, its file's name is a date, letters, digits and
// dashes.
import { randomBytes } from "node:crypto";

const WORDS_MAX = 7;
const CHARS_MAX = 48;
const NUMBERED_MAX = 1000;
const ALPHABET = "abcdefghjkmnpqrstvwxyz0123456789"; // without those that look like others

export function newId(): string {
  return `mem-${[...randomBytes(8)].map((byte) => ALPHABET[byte % 32]).join("")}`;
}

/** The first words of a text: "Use bun, never npm!" is "use-bun-never-npm". */
export function slug(text: string): string {
  const folded = text.slice(0, 1000).normalize("NFKD").replace(/\p{M}+/gu, "").toLowerCase().normalize("NFKC");
  const words = folded.match(/[\p{L}\p{N}]+/gu)?.slice(0, WORDS_MAX) ?? [];
  let name = "";
  for (const word of words) {
    const longer = name === "" ? [...word].slice(0, CHARS_MAX).join("") : `${name}-${word}`;
    if ([...longer].length > CHARS_MAX) break;
    name = longer;
  }
  return name || "note";
}

/** "x.md", then "x-2.md", and so on. */
export function* numbered(name: string): Generator<string> {
  yield `${name}.md`;
  for (let number = 2; number < NUMBERED_MAX; number++) yield `${name}-${number}.md`;
}

/** "2026-05-27-use-bun.md" and those to take if that is taken. */
export function* fileNames(time: number, text: string, id: string): Generator<string> {
  const name = `${new Date(time).toISOString().slice(0, 10)}-${slug(text)}`;
  yield* numbered(name);
  yield `${name}-${id}.md`;
}
