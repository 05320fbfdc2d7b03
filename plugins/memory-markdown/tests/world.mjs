// A store in a folder of its own, a host in memory, and a clock that a test sets.
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startHost } from "@kaged/plugin-sdk/testing";
import { createMemory } from "../dist/memory.js";

export const DAY = 86_400_000;
export const NOON = Date.parse("2026-05-27T12:00:00Z");
export const RESEARCHER = "primary.subagents.researcher";

const DEFAULTS = {
  isolation: "agent", store: "config:/memory", tags: [], capture: "marked",
  capture_words: "remember, note, decision", capture_model: false, recall_limit: 8, recency_weight: 0.3,
  half_life_days: 30, entry_chars: 4000, inject_chars: 4000, inject_intro: "Known ({shown} of {total}):",
  keep_forgotten: true,
};

export class World {
  now = NOON;

  static async make(t, config = {}) {
    const world = new World();
    world.base = mkdtempSync(join(tmpdir(), "memory-"));
    world.config = { ...DEFAULTS, ...config };
    mkdirSync(join(world.base, "memory"));
    await world.start();
    t.after(async () => {
      await world.host.stop();
      rmSync(world.base, { recursive: true });
    });
    return world;
  }

  async start() {
    const env = { KAGED_CONFIG_ROOT: this.base, KAGED_PROJECT_ROOT: this.base };
    this.host = await startHost(createMemory(env, () => this.now), { config: this.config });
  }

  async restart() {
    await this.host.stop();
    await this.start();
  }

  #options({ agent = "primary", project = "music", session = "ses_1", config } = {}) {
    return {
      context: { project_id: project, agent_path: agent, session_id: session },
      ...(config === undefined ? {} : { config: { ...this.config, ...config } }),
    };
  }

  tool(name, args, caller) {
    return this.host.tool(name, args, this.#options(caller));
  }

  hook(name, params, caller) {
    return this.host.hook(name, params, this.#options(caller));
  }

  retain(content, more = {}, caller) {
    return this.tool("retain", { content, ...more }, caller);
  }

  /** The texts that are found, the best first. */
  async found(query, more = {}, caller) {
    return (await this.tool("recall", { query, ...more }, caller)).memories.map(({ text }) => text);
  }

  path(...parts) {
    return join(this.base, "memory", ...parts);
  }

  folder(agent = "primary") {
    return this.path("music", agent);
  }

  files(agent) {
    return readdirSync(this.folder(agent)).filter((name) => name.endsWith(".md")).sort();
  }

  read(name, agent) {
    return readFileSync(join(this.folder(agent), name), "utf8");
  }

  write(name, text, agent) {
    mkdirSync(this.folder(agent), { recursive: true });
    writeFileSync(join(this.folder(agent), name), text);
  }

  /** What the log says of files that were left out. */
  warnings() {
    return this.host.logs.filter(({ level }) => level === "warn").map(({ file, problem }) => `${file}: ${problem}`);
  }
}
