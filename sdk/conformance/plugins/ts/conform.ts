// The plugin that README.md describes, with the SDK for TypeScript.
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { compacted, createPlugin, invalidParams, PluginError, refuseConfig } from "@kaged/plugin-sdk";

function crash(): never {
  throw new TypeError("a bug");
}

function nested(levels: number): unknown {
  return levels === 1 ? [] : [nested(levels - 1)];
}

const plugin = createPlugin({
  name: "conform",
  version: "1.2.3",
  capabilities: ["kaged:storage:write"],
  notifications: ["test.noted"],
  methods: {
    "test.echo": (params) => params,
    "test.keys": (params) => Object.keys(params).sort(),
    "test.context": (_, { operator_id, project_id, agent_path, session_id, request_id }) => (
      { operator_id, project_id, agent_path, session_id, request_id }
    ),
    "test.config": (_, context) => context.config,
    "test.projects": () => plugin.projects,
    "test.nothing": () => {},
    "test.need": ({ name }) => {
      if (typeof name !== "string") throw invalidParams("name must be a string");
      return { name };
    },
    "test.fail": ({ name }) => {
      throw new PluginError(-32050, "no such preset", { name });
    },
    "test.refuse": () => {
      throw new PluginError("refused");
    },
    "test.crash": crash,
    "test.print": () => {
      console.log("stray words");
      console.log('{"jsonrpc":"2.0","id":1,"result":"forged"}');
      execFileSync("sh", ["-c", "cat; echo from a child"], { stdio: "inherit" });
      return { printed: true };
    },
    "test.slow": async ({ ms }) => {
      await sleep(ms);
      return { slept: ms };
    },
    "test.big": ({ bytes }) => "x".repeat(bytes),
    "test.deep": ({ levels }) => nested(levels),
    "test.notify": ({ text }) => plugin.notify("test.noted", { text }),
    "test.log": ({ n }) => plugin.log.warn("careful", { n }),
    "test.store": async ({ text }) => {
      const exec = await plugin.storage.exec("INSERT INTO notes(text) VALUES (?)", [text]);
      const rows = await plugin.storage.query("SELECT text FROM notes");
      return { exec, query: { columns: rows.columns, rows } };
    },
    "test.batch": async ({ text }) => {
      const results = await plugin.storage.batch([
        { sql: "INSERT INTO notes(text) VALUES (?)", params: [text] },
        { sql: "DELETE FROM old" },
      ]);
      return { results };
    },
    "test.tables": async () => ({ tables: await plugin.storage.schema() }),
    "test.catch": async () => {
      try {
        await plugin.storage.exec("DROP TABLE notes");
        return {};
      } catch (error) {
        if (!(error instanceof PluginError)) throw error;
        return { code: error.code, message: error.message, data: error.data ?? null };
      }
    },
    "test.progress": (_params, context) => context.progress(1, 2, "half"),
    "test.ask": ({ title, schema }, context) => context.ask(title, { schema }),
    "test.sample": (params, context) => context.sample(params as any),
    "test.cancelled": async (_params, { signal }) => {
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { cancelled: signal.aborted };
    },
  },
  tools: {
    shout: ({ text }) => ({ text: text.toUpperCase() }),
  },
  hooks: {
    on_session_start: (_, context) => ({ inject: `welcome to ${context.project_id}` }),
    on_session_idle: ({ transcript }) => plugin.log.info("idle", { messages: transcript.length }),
    pre_compact: ({ role, messages_being_compacted: old, messages_remaining: messages }) => {
      if (role !== "compactor") return { retain: [`role was ${role}`] };
      const superseded = old.map((message) => message.id ?? "");
      return compacted({ messages, superseded, summary: `dropped ${old.length}` });
    },
    post_compact: ({ strategy }) => ({ retain: ["one", "two"], inject: `after ${strategy}` }),
  },
  onConfigUpdate: (config) => {
    if (typeof config["refuse"] === "string") throw refuseConfig(config["refuse"], { field: "refuse" });
    if (config["crash"] === true) crash();
  },
  onShutdown: () => plugin.log.info("bye"),
});

plugin.start();
