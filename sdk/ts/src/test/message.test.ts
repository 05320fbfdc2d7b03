import assert from "node:assert/strict";
import { test } from "node:test";
import { isTakenByHost, readMessage } from "../message.js";

const read = (text: string | Uint8Array) => readMessage(Buffer.from(text));

test("text is taken up to 256 deep, with brackets in strings not counted", () => {
  const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  assert.equal(isTakenByHost(nested(256)), true);
  assert.equal(isTakenByHost(nested(257)), false);
  assert.equal(isTakenByHost(`["${"[".repeat(500)}\\"["]`), true);
});

test("a surrogate needs its other half", () => {
  for (const whole of ["\\ud83d\\ude00", "\\uD83D\\uDE00", "\\\\ud800", "\\u00e9"])
    assert.equal(isTakenByHost(`"${whole}"`), true, whole);
  for (const half of ["\\ud800", "\\udc00", "\\ud83dx", "\\ud83d\\u0041", "\\ude00\\ud83d"])
    assert.equal(isTakenByHost(`"${half}"`), false, half);
});

test("bad lines are refused and never thrown", () => {
  for (const text of ["{", "nul", "\u00a0{}", Buffer.from([0x22, 0xff, 0x22]), "[".repeat(100_000)]) {
    const message = read(text);
    assert.equal(message?.kind, "refusal");
    assert.equal((message as { code: number }).code, -32700);
  }
  assert.equal(read(" \t\r"), null);
});
