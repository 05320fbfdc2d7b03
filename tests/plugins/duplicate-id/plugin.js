#!/usr/bin/env node
// Answers each call twice.
const lines = require("readline").createInterface({ input: process.stdin });
const hello = { name: "duplicate-id", version: "1.0.0", api_version: 1, methods: ["work.do"] };
const results = { initialize: hello, ping: { status: "ok" }, "work.do": "done" };

lines.on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (method === "shutdown") process.exit(0);
  if (id === undefined) return;
  const answer = JSON.stringify({ jsonrpc: "2.0", id, result: results[method] }) + "\n";
  process.stdout.write(answer + answer);
});
