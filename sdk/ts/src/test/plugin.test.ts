import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import {
  compacted, createPlugin, createPluginWith, ErrorCode, invalidParams, PluginError, refuseConfig,
  type PluginOptions,
} from "../index.js";
import { startHost, type TestHostOptions } from "../testing.js";

const base = { name: "notes", version: "1.0.0" };

async function withHost(options: Partial<PluginOptions>, hostOptions: TestHostOptions = {}) {
  const plugin = createPlugin({ ...base, ...options });
  return { plugin, host: await startHost(plugin, hostOptions) };
}

test("the introduction is what the author said", async () => {
  const { host } = await withHost({
    methods: { "notes.list": () => [] },
    tools: { recall: () => [] },
    notifications: ["notes.changed"],
    capabilities: ["kaged:storage:read"],
  });
  assert.deepEqual(host.introduction, {
    name: "notes", version: "1.0.0", api_version: 1, methods: ["notes.list"],
    notifications: ["notes.changed"], capabilities_used: ["kaged:storage:read"],
  });
});

test("a handler gets params, context and config, each by itself", async () => {
  const { host } = await withHost(
    { methods: { "notes.see": (params, context) => ({ params, context }) } },
    { config: { most: 3 } },
  );
  const context = { operator_id: "anna", project_id: "music", agent_path: "primary", session_id: "ses_1", request_id: "req_1" };
  assert.deepEqual(await host.call("notes.see", { a: 1 }, { context }), {
    params: { a: 1 }, context: { ...context, config: { most: 3 } },
  });
  const seen = await host.call("notes.see", {}, { context, config: { most: 9 } });
  assert.deepEqual(seen.context.config, { most: 9 });
});

test("errors of the author reach the caller, those of bugs do not", async () => {
  const { host } = await withHost({
    methods: {
      "notes.own": () => { throw new PluginError(-32050, "no such note", { id: 5 }); },
      "notes.bare": () => { throw new PluginError("no"); },
      "notes.params": () => { throw invalidParams("id is missing"); },
      "notes.bug": async () => { throw new TypeError("secret"); },
      "notes.thrown": () => { throw "a string"; },
    },
  });
  await assert.rejects(host.call("notes.own"), { code: -32050, message: "no such note", data: { id: 5 } });
  await assert.rejects(host.call("notes.bare"), { code: ErrorCode.plugin, message: "no" });
  await assert.rejects(host.call("notes.params"), { code: ErrorCode.invalidParams, message: "invalid params: id is missing" });
  await assert.rejects(host.call("notes.bug"), { code: ErrorCode.internal, message: "internal error" });
  await assert.rejects(host.call("notes.thrown"), { code: ErrorCode.internal });
  assert.match(host.logs[0].error, /TypeError: secret/);
});

test("what cannot be sent is an error of its call", async () => {
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const { host, plugin } = await withHost({
    methods: {
      "notes.circle": () => circle,
      "notes.big": () => "x".repeat(5 * 1024 * 1024),
      "notes.half": () => "\ud800",
      "notes.bigint": () => 5n,
      "notes.data": () => { throw new PluginError(-32050, "x", circle); },
    },
  });
  for (const method of ["circle", "big", "half", "bigint", "data"])
    await assert.rejects(host.call(`notes.${method}`), { code: ErrorCode.internal }, method);
  assert.throws(() => plugin.notify("notes.changed", circle));
});

test("calls run at the same time, and answers find their calls", async () => {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const { host } = await withHost({
    methods: {
      "notes.wait": async () => { await released; return "waited"; },
      "notes.release": async () => { release(); return "released"; },
    },
  });
  const answers = await Promise.all([host.call("notes.wait", {}), host.call("notes.release", {})]);
  assert.deepEqual(answers, ["waited", "released"]);
});

test("storage asks the host", async () => {
  const asked: unknown[] = [];
  const { host, plugin } = await withHost({}, {
    answer: (method, params) => {
      asked.push([method, params]);
      switch (method) {
        case "kaged.storage.query":
          return { columns: ["id", "data"], rows: [{ id: 1, data: { $blob: "aGk=" } }] };
        case "kaged.storage.exec":
          return { rows_affected: 1, last_insert_rowid: 7 };
        case "kaged.storage.batch":
          return { results: [{ rows_affected: 1 }, { rows_affected: 0 }] };
        default:
          return { tables: ["notes"] };
      }
    },
  });
  const rows = await plugin.storage.query<{ id: number; data: Uint8Array }>("SELECT * FROM notes WHERE id = :id", { id: 1 });
  assert.deepEqual(rows.columns, ["id", "data"]);
  assert.deepEqual(Buffer.from(rows[0]!.data).toString(), "hi");
  assert.equal((await plugin.storage.exec("INSERT INTO notes VALUES (?)", [Buffer.from("hi")])).last_insert_rowid, 7);
  assert.equal((await plugin.storage.batch([{ sql: "DELETE FROM a" }, { sql: "DELETE FROM b", params: [1] }])).length, 2);
  assert.deepEqual(await plugin.storage.schema(), ["notes"]);
  assert.deepEqual(asked, [
    ["kaged.storage.query", { sql: "SELECT * FROM notes WHERE id = :id", params: { id: 1 } }],
    ["kaged.storage.exec", { sql: "INSERT INTO notes VALUES (?)", params: [{ $blob: "aGk=" }] }],
    ["kaged.storage.batch", { statements: [{ sql: "DELETE FROM a", params: [] }, { sql: "DELETE FROM b", params: [1] }] }],
    ["kaged.storage.schema", {}],
  ]);
  await host.stop();
});

test("a refusal of the host is thrown in the handler", async () => {
  const { host, plugin } = await withHost(
    { methods: { "notes.drop": () => plugin.storage.exec("DROP TABLE x") } },
    { answer: () => { throw new PluginError(-32003, "not yours", { table: "x" }); } },
  );
  await assert.rejects(host.call("notes.drop"), { code: -32003, message: "not yours", data: { table: "x" } });
});

test("nothing is said before the handshake is done", async () => {
  const lines: string[] = [];
  let push: (chunk: Uint8Array) => void = () => {};
  const say = (message: object) => push(Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`));
  const plugin = createPlugin(base);
  plugin.start({ write: (line) => lines.push(line), log() {}, end() {}, read: (onChunk) => { push = onChunk; } });
  plugin.notify("notes.changed", { n: 1 });
  const tables = plugin.storage.schema();
  assert.deepEqual(lines, []);
  say({ id: 1, method: "initialize", params: { api_version: 1 } });
  assert.equal(lines.length, 1);
  say({ method: "initialized" });
  assert.deepEqual(lines.slice(1).map((line) => JSON.parse(line).method), ["notes.changed", "kaged.storage.schema"]);
  say({ id: 1, result: { tables: ["a"] } });
  assert.deepEqual(await tables, ["a"]);
});

test("storage in the handshake's config.update fails instead of waiting for ever", async () => {
  const plugin = createPlugin({ ...base, onConfigUpdate: async () => { await plugin.storage.schema(); } });
  await assert.rejects(startHost(plugin, { config: {} }), { code: ErrorCode.notInitialized });
});

test("a configuration that is refused is not kept", async () => {
  const { host, plugin } = await withHost({
    onConfigUpdate: (config) => {
      if (config["bad"]) throw refuseConfig("bad is bad", { field: "bad" });
    },
  }, { config: { good: true } });
  await assert.rejects(host.configure({ bad: true }), { code: ErrorCode.configInvalid, message: "bad is bad", data: { field: "bad" } });
  assert.deepEqual(plugin.config, { good: true });
});

test("a call that follows config.update sees the new configuration, and pings do not wait", async () => {
  const { host } = await withHost({
    onConfigUpdate: async () => { await sleep(20); },
    methods: { "notes.config": (_, context) => context.config },
  });
  const told = host.configure({ n: 1 });
  const call = host.call("notes.config");
  assert.deepEqual(await host.request("ping"), { status: "ok" });
  assert.deepEqual(await call, { n: 1 });
  await told;
});

test("projects are told of, those of initialize too", async () => {
  const seen: unknown[] = [];
  const { host, plugin } = await withHost({
    onProjectActivated: (project, config) => void seen.push([project, config]),
    onProjectDeactivated: (project) => void seen.push(project),
  }, { projects: ["music"] });
  await host.activate("homelab", { a: 1 });
  assert.deepEqual(plugin.projects, ["homelab", "music"]);
  await host.deactivate("music");
  assert.deepEqual(plugin.projects, ["homelab"]);
  assert.deepEqual(seen, [["homelab", { a: 1 }], "music"]);
});

test("tools and hooks are called by their wire names", async () => {
  const { host } = await withHost({
    tools: { recall: ({ query }) => ({ found: query }) },
    hooks: {
      on_session_start: (_, context) => ({ inject: `in ${context.project_id}` }),
      pre_compact: ({ messages_remaining }) => compacted({ messages: messages_remaining, superseded: ["m1"] }),
    },
  });
  assert.deepEqual(await host.tool("recall", { query: "x" }), { found: "x" });
  assert.deepEqual(await host.hook("on_session_start", {}, { context: { project_id: "music" } }), { inject: "in music" });
  assert.deepEqual(await host.hook("pre_compact", { messages_remaining: [] }), { role: "compactor", messages: [], superseded: ["m1"] });
  await assert.rejects(host.hook("post_compact"), { code: ErrorCode.methodNotFound });
});

test("the end waits for calls that run, fails those that wait for the host, and runs onShutdown last", async () => {
  const order: string[] = [];
  const { host, plugin } = await withHost({
    methods: {
      "notes.slow": async () => { await sleep(20); order.push("slow"); return "done"; },
      "notes.stuck": () => plugin.storage.schema(),
    },
    onShutdown: () => void order.push("shutdown"),
  }, { answer: () => new Promise(() => {}) });
  const slow = host.call("notes.slow");
  const stuck = host.call("notes.stuck");
  stuck.catch(() => {});
  await host.stop();
  assert.equal(await slow, "done");
  await assert.rejects(stuck, { code: ErrorCode.internal });
  assert.deepEqual(order, ["slow", "shutdown"]);
});

test("bad lines are answered, and the plugin lives on", async () => {
  const { host } = await withHost({});
  host.send("nonsense\n[]\n{}\n");
  assert.deepEqual(host.strays.map((answer) => answer.error.code), [-32700, -32600, -32600]);
  assert.deepEqual(await host.request("ping"), { status: "ok" });
});

test("logs are JSON, whatever the fields are", async () => {
  const { host, plugin } = await withHost({});
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  plugin.log.warn("careful", { n: 3n, error: new Error("x"), level: "mine" });
  plugin.log.error("round", { circle });
  plugin.log.debug("not shown");
  assert.equal(host.logs.length, 2);
  assert.equal(host.logs[0].level, "warn");
  assert.equal(host.logs[0].n, "3");
  assert.match(host.logs[0].error, /Error: x/);
  assert.equal(host.logs[1].message, "round");
});

test("the configuration can have a type", async () => {
  const plugin = createPluginWith<{ most: number }>()({
    ...base,
    methods: { "notes.most": (_, context) => context.config.most + plugin.config.most },
  });
  const host = await startHost(plugin, { config: { most: 2 } });
  assert.equal(await host.call("notes.most"), 4);
});
