// Markdown of models and plugins as elements of the page: there is no HTML in between, and nothing that is asked
// of another host. A link is its words and where it would lead, to be read and copied.
import type { ComponentChild } from "preact";
import { harmless } from "./words";

const INLINE = /(`+)([\s\S]+?)\1|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|(?<![A-Za-z0-9])_([^_\n]+)_(?![A-Za-z0-9])|!?\[([^\]\n]*)\]\(([^)\s]+)[^)\n]*\)/g;
const DEPTH_MAX = 4;

function inline(text: string, depth = 0): ComponentChild[] {
  const made: ComponentChild[] = [];
  let at = 0;
  for (const found of depth < DEPTH_MAX ? text.matchAll(INLINE) : []) {
    if (found.index > at) made.push(harmless(text.slice(at, found.index)));
    const [whole, , code, strong, strong2, soft, soft2, words, to] = found;
    if (code !== undefined) made.push(<code>{harmless(code.trim())}</code>);
    else if (strong ?? strong2) made.push(<strong>{inline(strong ?? strong2, depth + 1)}</strong>);
    else if (soft ?? soft2) made.push(<em>{inline(soft ?? soft2, depth + 1)}</em>);
    else made.push(<span>{inline(words, depth + 1)} <span class="faint">({harmless(to)})</span></span>);
    at = found.index + whole.length;
  }
  if (at < text.length) made.push(harmless(text.slice(at)));
  return made;
}

type Rule = { starts: RegExp; make: (lines: string[]) => ComponentChild };
const strip = (lines: string[], prefix: RegExp) => lines.map((line) => line.replace(prefix, ""));
const items = (lines: string[], marker: RegExp): string[] => {
  const made: string[] = [];
  for (const line of lines) {
    if (marker.test(line)) made.push(line.replace(marker, ""));
    else if (made.length > 0) made[made.length - 1] += `\n${line.trim()}`;
  }
  return made;
};
const BULLET = /^\s*[-*+]\s+/;
const NUMBER = /^\s*\d{1,9}[.)]\s+/;
const cells = (line: string): string[] => line.trim().replace(/^\||\|$/g, "").split("|").map((one) => one.trim());
const RULES: Rule[] = [
  { starts: /^\s*>/, make: (lines) => <blockquote>{blocks(strip(lines, /^\s*>\s?/).join("\n"))}</blockquote> },
  { starts: BULLET, make: (lines) => <ul class="md">{items(lines, BULLET).map((one, index) => <li key={index}>{inline(one)}</li>)}</ul> },
  { starts: NUMBER, make: (lines) => <ol class="md">{items(lines, NUMBER).map((one, index) => <li key={index}>{inline(one)}</li>)}</ol> },
  {
    starts: /^\s*\|.*\|\s*$/,
    make: (lines) => {
      const [head, ...rest] = lines.filter((line) => !/^[\s|:-]+$/.test(line)).map(cells);
      return <div class="scroll"><table><thead><tr>{head?.map((one, index) => <th key={index}>{inline(one)}</th>)}</tr></thead><tbody>{rest.map((row, index) => <tr key={index}>{row.map((one, at) => <td key={at}>{inline(one)}</td>)}</tr>)}</tbody></table></div>;
    },
  },
];

function paragraph(lines: string[]): ComponentChild {
  const heading = /^(#{1,6})\s+(.*)/.exec(lines[0]);
  if (heading) return <><p class="heading">{inline(heading[2])}</p>{lines.length > 1 && <p>{inline(lines.slice(1).join("\n"))}</p>}</>;
  if (lines.length === 1 && /^\s*([-*_])(\s*\1){2,}\s*$/.test(lines[0])) return <hr />;
  const rule = RULES.find((one) => one.starts.test(lines[0]));
  if (rule) return rule.make(lines);
  // A list may follow its sentence without an empty line.
  const list = lines.findIndex((line, index) => index > 0 && (BULLET.test(line) || NUMBER.test(line)));
  if (list > 0) return <>{paragraph(lines.slice(0, list))}{paragraph(lines.slice(list))}</>;
  return <p>{inline(lines.join("\n"))}</p>;
}

function blocks(text: string): ComponentChild[] {
  const made: ComponentChild[] = [];
  let held: string[] = [];
  const flush = () => {
    if (held.length > 0) made.push(paragraph(held));
    held = [];
  };
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const fence = /^\s*(`{3,}|~{3,})/.exec(lines[at]);
    if (fence) {
      flush();
      const end = lines.findIndex((line, index) => index > at && line.trim().startsWith(fence[1]));
      const last = end < 0 ? lines.length : end;
      made.push(<pre tabIndex={0}>{harmless(lines.slice(at + 1, last).join("\n"))}</pre>);
      at = last;
    } else if (lines[at].trim() === "") flush();
    else held.push(lines[at]);
  }
  flush();
  return made;
}

export const Markdown = ({ text }: { text: string }) => <div class="markdown">{blocks(text)}</div>;
