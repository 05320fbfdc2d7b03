// The text that a model is given unasked. It never has more characters than were allowed, and a
// memory is in it as one line, shortened if it is long, or not at all.
import { cleanLine, cutText, formatTime } from "./entry.js";
import type { Good } from "./folder.js";

const LINE_CHARS_MAX = 400;

/** "- [mem-1a2b3c4d] 2026-05-27 #tools #bun: Uses bun, never npm." */
function formatLine({ entry }: Good): string {
  const text = cleanLine(entry.text);
  const cut = text.length > LINE_CHARS_MAX ? `${cutText(text, LINE_CHARS_MAX)}…` : text;
  const tags = entry.tags.map((tag) => ` #${tag}`).join("");
  return `- [${entry.id}] ${formatTime(entry.updated).slice(0, 10)}${tags}: ${cut}`;
}

function formatIntro(intro: string, shown: number, total: number): string {
  return intro.replaceAll("{shown}", String(shown)).replaceAll("{total}", String(total));
}

/** As many of the files as fit; null if none does. */
export function formatInjection(files: readonly Good[], total: number, intro: string, charsMax: number): string | null {
  const lines: string[] = [];
  let left = charsMax - formatIntro(intro, total, total).length;
  for (const file of files) {
    const line = formatLine(file);
    if (line.length + 1 > left) break;
    lines.push(line);
    left -= line.length + 1;
  }
  return lines.length > 0 ? [formatIntro(intro, lines.length, total), ...lines].join("\n") : null;
}
