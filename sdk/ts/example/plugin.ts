// A whole plugin in TypeScript: it greets, and remembers whom in its storage.
import { createPluginWith, invalidParams, refuseConfig } from "@kaged/plugin-sdk";

interface Config {
  word?: string;
}

const plugin = createPluginWith<Config>()({
  name: "greeter",
  version: "1.0.0",
  capabilities: ["kaged:storage:write"],
  methods: {
    "greeting.say": async ({ name }, context) => {
      if (typeof name !== "string") throw invalidParams("name must be a string");
      await plugin.storage.exec(
        "INSERT INTO greeted VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1", [name]);
      return { text: `${context.config.word ?? "Hello"}, ${name}!` };
    },
  },
  tools: {
    known: async () => ({
      people: await plugin.storage.query("SELECT name, times FROM greeted ORDER BY name"),
    }),
  },
  hooks: {
    on_session_start: (_, context) => ({ inject: `This is the project ${context.project_id}.` }),
  },
  onConfigUpdate: ({ word }) => {
    if (word === "") throw refuseConfig("word must not be empty");
  },
  onReady: () => plugin.storage.exec(
    "CREATE TABLE IF NOT EXISTS greeted (name TEXT PRIMARY KEY, times INT)"),
});

plugin.start();
