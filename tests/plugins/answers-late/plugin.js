#!/usr/bin/env node
// Answers a call after the milliseconds that it is given.
const lines = require("readline").createInterface({ input: process.stdin });
const hello = { name: "answers-late", version: "1.0.0", api_version: 1, methods: ["late.answer"] };

const answer = (id, result) =>
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");

lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") answer(id, hello);
  else if (method === "ping") answer(id, { status: "ok" });
  else if (method === "shutdown") process.exit(0);
  else if (method === "late.answer") setTimeout(answer, params.after_ms, id, params.value ?? null);
});
