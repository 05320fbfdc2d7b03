// Words of texts, and which texts have them. A word is looked up by what it begins with, too, so that
// "deploy" finds "deployment".

const QUERY_WORDS_MAX = 100;
const WORDS_MAX = 250_000; // that are known at a time; people use fewer, hostile files may have more
const WORD_CHARS_MAX = 64;
const START_CHARS = 4; // fewer are no beginning
/** What counts of a word that is only a beginning, or has one. */
export const PREFIX_SHARE = 0.6;

// Letters of scripts without spaces are words of their own.
const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}]+/gu;
const STOP_WORDS = new Set(("a an and are as at be but by do does for from has have how i in is it its not of on or " +
  "our that the their there this to was we were what when where which who why will with you your").split(" "));

function fold(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}+/gu, "").toLowerCase();
}

/** All different words of a text. Plain English takes the short way, which is much faster. */
export function wordsOf(text: string): Set<string> {
  const found = /^[\x00-\x7f]*$/.test(text) ? text.toLowerCase().match(/[a-z0-9]+/g) : fold(text).match(WORD);
  return new Set(found?.map((word) => word.slice(0, WORD_CHARS_MAX)));
}

/** Those that a search is for: the first ones, without such as "the" unless there is nothing else. */
export function queryWords(text: string): string[] {
  const all = [...wordsOf(text)];
  const telling = all.filter((word) => !STOP_WORDS.has(word));
  return (telling.length > 0 ? telling : all).slice(0, QUERY_WORDS_MAX);
}

export interface Match {
  /** From 0 to 1. */
  share: number;
  words: string[];
}

const start = (word: string) => word.slice(0, START_CHARS);

function include<Value>(sets: Map<string, Set<Value>>, key: string, value: Value): void {
  const set = sets.get(key);
  if (set === undefined) sets.set(key, new Set([value]));
  else set.add(value);
}

/** Whether nothing is left under that key. */
function exclude<Value>(sets: Map<string, Set<Value>>, key: string, value: Value): boolean {
  const set = sets.get(key);
  set?.delete(value);
  return set?.size === 0 && sets.delete(key);
}

export class WordIndex<Item> {
  readonly #items = new Map<string, Set<Item>>();
  readonly #starts = new Map<string, Set<string>>(); // words by their first letters
  readonly #words = new Map<Item, Set<string>>();

  add(item: Item, text: string): void {
    const words = new Set<string>();
    this.#words.set(item, words);
    for (const word of wordsOf(text)) {
      if (!this.#items.has(word) && this.#items.size === WORDS_MAX) continue;
      words.add(word);
      include(this.#items, word, item);
      include(this.#starts, start(word), word);
    }
  }

  delete(item: Item): void {
    for (const word of this.#words.get(item) ?? []) {
      if (exclude(this.#items, word, item)) exclude(this.#starts, start(word), word);
    }
    this.#words.delete(item);
  }

  /** How well each item has a word: 1, or PREFIX_SHARE. */
  #hits(word: string): Map<Item, number> {
    const hits = new Map<Item, number>();
    const near = word.length < START_CHARS ? [] : this.#starts.get(start(word)) ?? [];
    for (const other of near)
      if (word.startsWith(other) || other.startsWith(word))
        for (const item of this.#items.get(other)!) hits.set(item, PREFIX_SHARE);
    for (const item of this.#items.get(word) ?? []) hits.set(item, 1);
    return hits;
  }

  /** Items that have any of the words. A word counts for more the fewer items have it. */
  find(words: readonly string[]): Map<Item, Match> {
    const found = new Map<Item, Match>();
    let whole = 0;
    for (const word of words) {
      const hits = this.#hits(word);
      const weight = Math.log(1 + this.#words.size / (1 + hits.size));
      whole += weight;
      for (const [item, share] of hits) {
        const match = found.get(item) ?? { share: 0, words: [] };
        match.share += weight * share;
        match.words.push(share === 1 ? word : `${word}~`);
        found.set(item, match);
      }
    }
    for (const match of found.values()) match.share /= whole;
    return found;
  }
}
