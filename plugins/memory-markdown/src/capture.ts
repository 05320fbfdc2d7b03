// What of a conversation is worth keeping, by a rule that fits into a sentence: lines that begin with
// a marking word and a colon, and, if that is wanted, sentences that tell a decision. No code, no
// quotations, no results of tools, nothing that a plugin said.
import type { Message } from "@kaged/plugin-sdk";
import { cleanLine } from "./entry.js";

export interface CaptureRule {
  capture: "off" | "marked" | "decisions";
  capture_words: string;
  capture_model: boolean;
}

export interface Finding {
  text: string;
  tag: string;
}

const FINDINGS_MAX = 20;
const LINE_CHARS_MAX = 20_000;
const SENTENCE_CHARS = { least: 12, most: 500 };
const DECISION = new RegExp("^(?:(?:we|i)(?:'ve| have)? (?:decided|agreed|chose)|from now on|" +
  "(?:(?:let's|we|you|i)(?: must)? )?(?:always|never(?! mind)))\\b", "i");

/** The text of a message that somebody said; "" of anything else. */
export function spoken(message: Message): string {
  if (message["kind"] !== undefined && message["kind"] !== "message") return "";
  const parts = Array.isArray(message.content) ? message.content : [message.content];
  return parts.map((part) => (part?.type === "text" ? part.text : part))
    .filter((part) => typeof part === "string").join("\n");
}

/** Lines without code and quotations, and without what marks lists and stress. */
function* plainLines(text: string): Generator<string> {
  let isCode = false;
  for (const line of text.split("\n")) {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode;
    else if (!isCode && !/^\s*>/.test(line) && line.length <= LINE_CHARS_MAX)
      yield cleanLine(line).replace(/^(?:[-*+•] |\d+[.)] )?(?:\[[ x]\] )?/, "").replace(/\*\*|__/g, "");
  }
}

/** The line as word and text, if it begins with one of the words and a colon. */
function marked(line: string, words: readonly string[]): Finding | null {
  const colon = line.search(/[:：]/);
  if (colon < 0) return null;
  const word = line.slice(0, colon).trim().toLowerCase().replace(/^please /, "");
  const text = line.slice(colon + 1).trim();
  return words.includes(word) && text !== "" ? { text, tag: word } : null;
}

function decisions(line: string): Finding[] {
  return line.split(/(?<=[.!?]) /).map((sentence) => sentence.trim())
    .filter((sentence) => DECISION.test(sentence) && !sentence.endsWith("?") &&
      sentence.length >= SENTENCE_CHARS.least && sentence.length <= SENTENCE_CHARS.most)
    .map((text) => ({ text, tag: "decision" }));
}

/** At most so many at once, the first ones. */
export function findWorth(messages: readonly Message[], rule: CaptureRule): Finding[] {
  if (rule.capture === "off") return [];
  const words = rule.capture_words.split(",").map((word) => word.trim().toLowerCase()).filter(Boolean);
  const found: Finding[] = [];
  for (const message of messages) {
    if (message.role !== "user" && !(rule.capture_model && message.role === "assistant")) continue;
    for (const line of plainLines(spoken(message))) {
      const one = marked(line, words);
      if (one !== null) found.push(one);
      else if (rule.capture === "decisions") found.push(...decisions(line));
    }
  }
  return found.slice(0, FINDINGS_MAX);
}
