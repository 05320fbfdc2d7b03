#!/usr/bin/env node
// Does all as it should, in JavaScript.
const readline = require("readline");

const handlers = {
  initialize: () => ({
    name: process.env.KAGED_PLUGIN_NAME, version: "1.0.0", api_version: 1,
    methods: ["good.echo"], notifications: [], capabilities_used: [],
  }),
  ping: () => ({ status: "ok" }),
  "good.echo": (params) => params,
};

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "shutdown") process.exit(0);
  if (id === undefined) return;
  const reply = Object.hasOwn(handlers, method)
    ? { result: handlers[method](params) }
    : { error: { code: -32601, message: `no method ${method}` } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...reply }) + "\n");
});
lines.on("close", () => process.exit(0));
