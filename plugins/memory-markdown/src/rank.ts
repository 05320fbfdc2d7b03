// Which memories fit best, and why:
//
//   match   = words, or tags, or 0.7 words + 0.3 tags, by what was asked for
//   recency = 2 ^ (-days since it was updated / half-life)
//   score   = (1 - weight) match + weight recency
//
// words is the share of the query's words that it has, rare ones counting for more; tags the share of
// the tags that were asked for. What matches nothing is not found; if nothing was asked for, the
// score is the recency.
import type { Folder, Good } from "./folder.js";
import { queryWords, type Match } from "./words.js";

const DAY_MS = 86_400_000;
const WORDS_SHARE = 0.7;

export interface Question {
  text: string;
  tags: readonly string[];
  now: number;
  halfLifeDays: number;
  recencyWeight: number;
}

export interface Ranked {
  file: Good;
  score: number;
  why: string;
}

const round = (number: number) => Math.round(number * 1000) / 1000;

function daysOld(file: Good, now: number): number {
  return Math.max(0, (now - file.entry.updated) / DAY_MS);
}

function tagsOf(file: Good, asked: readonly string[]): string[] {
  const has = new Set(file.entry.tags.map((tag) => tag.toLowerCase()));
  return asked.filter((tag) => has.has(tag.toLowerCase()));
}

/** One file's part of the question; null if nothing matches. */
function rankOne(file: Good, question: Question, words: Match | undefined, hasWords: boolean): Ranked | null {
  const { tags, now, halfLifeDays, recencyWeight } = question;
  const why: string[] = [];
  const parts = { words: words?.share ?? 0, tags: 0 };
  if (words !== undefined) why.push(`words ${words.words.join(", ")} (${round(words.share)})`);
  const shared = tagsOf(file, tags);
  if (tags.length > 0) parts.tags = shared.length / tags.length;
  if (shared.length > 0) why.push(`tags ${shared.join(", ")} (${round(parts.tags)})`);
  const isAsked = hasWords || tags.length > 0;
  if (isAsked && why.length === 0) return null;
  const days = daysOld(file, now);
  const recency = 2 ** (-days / halfLifeDays);
  why.push(`${Math.floor(days)} ${Math.floor(days) === 1 ? "day" : "days"} old (${round(recency)})`);
  const share = hasWords && tags.length > 0 ? WORDS_SHARE : hasWords ? 1 : 0;
  const match = share * parts.words + (1 - share) * parts.tags;
  const score = isAsked ? (1 - recencyWeight) * match + recencyWeight * recency : recency;
  return { file, score: round(score), why: why.join("; ") };
}

function compare(a: Ranked, b: Ranked): number {
  return b.score - a.score || b.file.entry.updated - a.file.entry.updated || (a.file.name < b.file.name ? -1 : 1);
}

/** The best first; of equals, the newest. */
export function rank(folder: Folder, question: Question): Ranked[] {
  const asked = queryWords(question.text);
  const matches = folder.words.find(asked);
  const ranked = folder.entries.map((file) => rankOne(file, question, matches.get(file), asked.length > 0));
  return ranked.filter((each): each is Ranked => each !== null).sort(compare);
}
