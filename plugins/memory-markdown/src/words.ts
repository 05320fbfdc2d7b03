// Words of texts, and which texts have them. A word is looked up by what it begins with, too, so that
// "deploy" finds "deployment".

const QUERY_WORDS_MAX = 100;
const WORD_CHARS_MAX = 64;
const PREFIX_CHARS_MIN = 4;
/** What counts of a word that is only a beginning, or has one. */
export const PREFIX_SHARE = 0.6;

// Letters of scripts without spaces are words of their own.
const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}]+/gu;
const STOP_WORDS = new Set(("a an and are as at be but by do does for from has have how i in is it its not of on or " +
  "our that the their there this to was we were what when where which who why will with you your").split(" "));

function fold(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}+/gu, "").toLowerCase();
}

/** All different words of a text. */
export function wordsOf(text: string): Set<string> {
  return new Set((fold(text).match(WORD) ?? []).map((word) => word.slice(0, WORD_CHARS_MAX)));
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

export class WordIndex<Item> {
  readonly #items = new Map<string, Set<Item>>();
  readonly #words = new Map<Item, Set<string>>();

  add(item: Item, text: string): void {
    const words = wordsOf(text);
    this.#words.set(item, words);
    for (const word of words) {
      const items = this.#items.get(word);
      if (items === undefined) this.#items.set(word, new Set([item]));
      else items.add(item);
    }
  }

  delete(item: Item): void {
    for (const word of this.#words.get(item) ?? []) {
      const items = this.#items.get(word)!;
      items.delete(item);
      if (items.size === 0) this.#items.delete(word);
    }
    this.#words.delete(item);
  }

  /** How well each item has a word: 1, or PREFIX_SHARE. */
  #hits(word: string): Map<Item, number> {
    const hits = new Map<Item, number>();
    const isNear = (other: string) => (other.length < word.length
      ? other.length >= PREFIX_CHARS_MIN && word.startsWith(other)
      : word.length >= PREFIX_CHARS_MIN && other.startsWith(word));
    for (const [other, items] of this.#items)
      if (other !== word && isNear(other)) for (const item of items) hits.set(item, PREFIX_SHARE);
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
