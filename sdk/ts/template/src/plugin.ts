// my-plugin: greets people by name. The manifest is kaged-plugin.yaml.
import { createPluginWith, invalidParams, type Handler } from "@kaged/plugin-sdk";

interface Config {
  word?: string;
}

const greet: Handler<Config> = ({ name }, context) => {
  if (typeof name !== "string") throw invalidParams("name must be a string");
  return { text: `${context.config.word ?? "Hello"}, ${name}!` };
};

export const plugin = createPluginWith<Config>()({
  name: "my-plugin",
  version: "0.1.0",
  tools: { greet },
  methods: { "greeting.say": greet },
  hooks: {
    on_session_start: () => ({ inject: "The tool my-plugin.greet greets people." }),
  },
});
