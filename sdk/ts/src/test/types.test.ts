// Types only: that this compiles is the test.
import { test } from "node:test";
import type { Manifest } from "../index.js";
import type { project } from "../schemas.js";

test("the schemas' types take what the schemas take", () => {
  const manifest: Manifest = {
    name: "notes", version: "1.0.0", kaged_api: 1, description: "Notes.", command: ["./run"],
    capabilities: ["kaged:storage:write", { net: ["example.com:443"] }],
    hooks: ["pre_compact"], roles: ["compactor"],
    knobs: {
      budget: { type: "enum", label: "Budget", binds_to: "config.budget", values: ["low"], default: "low" },
    },
  };
  // @ts-expect-error: there is no such hook
  manifest.hooks = ["on_sunset"];
  // @ts-expect-error: a range needs its bounds
  manifest.knobs = { size: { type: "range", label: "Size", binds_to: "config.size", default: 1 } };
  const file: project.Project = { version: 1, name: "music", primary: { plugins: { notes: null } } };
  // @ts-expect-error: plugins are the agents'
  file.plugins = {};
});
