import assert from "node:assert/strict";
import { test } from "node:test";
import { LINE_BYTES_MAX, LineReader } from "../lines.js";

function reader() {
  const seen: string[] = [];
  const lines = new LineReader({
    onLine: (line) => seen.push(Buffer.from(line).toString()),
    onOversize: () => seen.push("OVERSIZE"),
  });
  return { seen, push: (text: string) => lines.push(Buffer.from(text)) };
}

test("lines come whole, however they were cut", () => {
  const { seen, push } = reader();
  for (const part of ["a", "b\nc", "\n", "\nd\ne", "f"]) push(part);
  assert.deepEqual(seen, ["ab", "c", "", "d"]);
  push("\n");
  assert.deepEqual(seen.at(-1), "ef");
});

test("a line past the bound is told of once, and the next one is read", () => {
  const { seen, push } = reader();
  push("x".repeat(LINE_BYTES_MAX));
  push("x");
  push("x".repeat(1000));
  push("x\nnext\n");
  assert.deepEqual(seen, ["OVERSIZE", "next"]);
});
