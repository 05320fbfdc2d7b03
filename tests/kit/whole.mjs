#!/usr/bin/env node
// Uses all that a plugin can have; prints to stdout, which the SDK has to keep from the wire.
import { compacted, createPlugin, invalidParams, refuseConfig } from "@kaged/plugin-sdk";

const plugin = createPlugin({
  name: "whole",
  version: "1.0.0",
  notifications: ["whole.noted"],
  methods: {
    "whole.add": (params) => {
      const { a, b, ...rest } = params;
      if (!Number.isInteger(a) || !Number.isInteger(b) || Object.keys(rest).length > 0)
        throw invalidParams("a and b are two integers");
      return { sum: a + b };
    },
    "whole.note": async (_params, context) => {
      console.log("a note");
      if (plugin.host.storage_available)
        await plugin.storage.exec("INSERT INTO notes VALUES ('x')");
      context.progress(1, 2);
      plugin.notify("whole.noted", {});
      return { noted: true };
    },
  },
  tools: {
    find: ({ text, ...rest }) => {
      if (typeof text !== "string" || text === "" || Object.keys(rest).length > 0)
        throw invalidParams("text is a string");
      return { found: [] };
    },
    all: () => ({ found: [] }),
  },
  hooks: {
    on_session_start: () => ({ inject: "hello" }),
    on_session_idle: () => {},
    pre_compact: ({ role, messages_being_compacted: old, messages_remaining: messages }) => {
      if (role !== "compactor") return { retain: ["something"] };
      return compacted({ messages, superseded: old.map(({ id }) => id), summary: "gone" });
    },
    post_compact: () => ({ inject: "after it" }),
  },
  onConfigUpdate: ({ limit }) => {
    if (!Number.isInteger(limit)) throw refuseConfig("limit is an integer");
  },
  onReady: async (host) => {
    if (host.storage_available)
      await plugin.storage.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT)");
  },
});

plugin.start();
