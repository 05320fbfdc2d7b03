// Where memories lie. The store is the folder that the setting `store` names; below it is a folder for
// each project, unless the store is the project's own, and in that one for each agent, or one that they
// share. A README.md at the top tells people.
import { join } from "node:path";
import { ErrorCode, PluginError, type CallContext, type Log } from "@kaged/plugin-sdk";
import { enterFolder, look, writeNew } from "./files.js";
import { Folder } from "./folder.js";
import { README_TEXT } from "./readme.js";
import type { Config } from "./config.js";

const SHARED = "shared"; // no agent is called so: their paths begin with "primary"
const README = "README.md";
const FOLDERS_MAX = 64; // that are kept in memory
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

export type Environment = Record<string, string | undefined>;

export class Store {
  readonly #env: Environment;
  readonly #log: Log;
  readonly #folders = new Map<string, Folder>();

  constructor(env: Environment, log: Log) {
    this.#env = env;
    this.#log = log;
  }

  #root(store: string): string {
    const [, kind, rest] = /^(config|project):\/(.*)$/s.exec(store) ?? [];
    const root = kind === undefined ? undefined
      : this.#env[kind === "config" ? "KAGED_CONFIG_ROOT" : "KAGED_PROJECT_ROOT"];
    if (root === undefined || rest!.split("/").includes(".."))
      throw new PluginError(`the store ${store} is nowhere that this process can reach`);
    return join(root, rest!);
  }

  #parts({ store, isolation }: Config, { project_id, agent_path }: CallContext<Config>): string[] {
    if (project_id === null || agent_path === null)
      throw new PluginError(ErrorCode.notApplicable, "memories belong to agents of a project");
    const parts = [isolation === "project" ? SHARED : agent_path];
    if (store.startsWith("config:")) parts.unshift(project_id);
    for (const part of parts)
      if (!NAME.test(part)) throw new PluginError(`${JSON.stringify(part)} cannot be the name of a folder`);
    return parts;
  }

  /** The folder of the caller, as its files are now. */
  open(context: CallContext<Config>): Folder {
    const { config } = context;
    const root = this.#root(config.store);
    const parts = this.#parts(config, context);
    if (enterFolder(root, [], false) === null)
      throw new PluginError(`the store ${config.store} is not there, or out of this process's reach`);
    const key = join(root, ...parts);
    let folder = this.#folders.get(key);
    if (folder === undefined) {
      if (this.#folders.size === FOLDERS_MAX) this.#folders.clear();
      folder = new Folder(root, parts, this.#log);
      this.#folders.set(key, folder);
    }
    return folder.refresh();
  }

  /** For people; what they make of it stays. */
  explain({ store }: Config): void {
    const root = this.#root(store);
    if (look(join(root, README)) === null) writeNew(root, [README], README_TEXT);
  }
}
