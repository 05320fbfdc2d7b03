// Run with npm test: a host in memory, no daemon.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startHost } from "@kaged/plugin-sdk/testing";
import { plugin } from "../dist/plugin.js";

const host = await startHost(plugin, { config: { word: "Welcome" } });
after(() => host.stop());

test("greets with the word of its config", async () => {
  assert.deepEqual(await host.tool("greet", { name: "Ada" }), { text: "Welcome, Ada!" });
});

test("refuses to greet nobody", async () => {
  await assert.rejects(host.call("greeting.say", {}), /name must be a string/);
});

test("tells a session of its tool", async () => {
  assert.match((await host.hook("on_session_start")).inject, /my-plugin\.greet/);
});
