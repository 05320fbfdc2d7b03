// Cuts a stream into lines; what follows the last newline is none. A line past the bound is told of once and passed over: whatever comes,
// no more than the bound is kept.

/** The most bytes of a line, either way, without its newline. */
export const LINE_BYTES_MAX = 4 * 1024 * 1024;

const NEWLINE = 0x0a;

export interface LineEvents {
  onLine(line: Uint8Array): void;
  onOversize(): void;
}

export class LineReader {
  readonly #events: LineEvents;
  #parts: Uint8Array[] = [];
  #length = 0;
  #skipping = false;

  constructor(events: LineEvents) {
    this.#events = events;
  }

  push(chunk: Uint8Array): void {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      if (end < 0) break;
      this.#take(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    if (start < chunk.length) this.#take(chunk.subarray(start));
  }

  #take(part: Uint8Array): void {
    if (this.#skipping || part.length === 0) return;
    if (this.#length + part.length > LINE_BYTES_MAX) {
      this.#parts = [];
      this.#length = 0;
      this.#skipping = true;
      this.#events.onOversize();
      return;
    }
    this.#parts.push(part);
    this.#length += part.length;
  }

  #finish(): void {
    const skipped = this.#skipping;
    const line = this.#parts.length === 1 ? this.#parts[0]! : concat(this.#parts, this.#length);
    this.#parts = [];
    this.#length = 0;
    this.#skipping = false;
    if (!skipped) this.#events.onLine(line);
  }
}

function concat(parts: Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
