// Run with npm test: no daemon, no client.
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { server } from "../dist/server.js";

/** What the server answers to one message. */
async function said(message) {
  const input = new PassThrough(), output = new PassThrough();
  const over = server.run(input, output);
  input.end(JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }) + "\n");
  await over;
  return JSON.parse(String(await new Promise((resolve) => output.once("data", resolve))));
}

test("greets by name", async () => {
  assert.equal((await server.call("greet", { name: "Ada" })).content[0].text, "Hello, Ada!");
});

test("greets several", async () => {
  const result = await server.call("greet_all", { names: ["Ada", "Bo"] });
  assert.equal(result.content[0].text, "Hello, Ada!\nHello, Bo!");
});

test("refuses to greet nobody", async () => {
  const result = await server.call("greet", {});
  assert.equal(result.isError, true);
  assert.equal(result.content[0].text, "name is missing");
});

test("tells a client what it is, and which tools it has", async () => {
  const hello = await said({ method: "initialize", params: { protocolVersion: "2025-11-25" } });
  assert.equal(hello.result.serverInfo.name, "my-plugin");
  const { result } = await said({ method: "tools/list" });
  assert.deepEqual(result.tools.map((tool) => tool.name), ["greet", "greet_all"]);
});
