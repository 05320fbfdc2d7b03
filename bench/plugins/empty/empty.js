import { createPlugin } from "@kaged/plugin-sdk";

createPlugin({
  name: "empty-ts",
  version: "1.0.0",
  methods: { "empty.call": () => null },
}).start();
