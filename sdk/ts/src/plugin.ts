// A plugin between its handlers and the host. Every request is answered once, whatever its handler
// does; nothing is written before the host may read it; and the end comes once.
import { ErrorCode, PluginError, invalidParams } from "./errors.js";
import { LINE_BYTES_MAX, LineReader } from "./lines.js";
import { createLog, type Log } from "./log.js";
import {
  isObject, isTakenByHost, parseError, readMessage,
  type Id, type Incoming, type Notification, type Request, type Response,
} from "./message.js";
import { openStdio, type Transport } from "./stdio.js";
import { createStorage, type Storage } from "./storage.js";
import type { CallContext, Handler, Hooks, HostInfo, Params } from "./types.js";

export const API_VERSION = 1;
const FINISH_MS = 2000; // for calls that run when the end comes

export interface PluginOptions<Config = Record<string, any>> {
  /** These four are the manifest's. */
  name: string;
  version: string;
  notifications?: readonly string[];
  capabilities?: readonly string[];
  methods?: Record<string, Handler<Config>>;
  /** By their short names: `retain` is called as `<plugin>.retain`. */
  tools?: Record<string, Handler<Config>>;
  hooks?: Hooks<Config>;
  /** Throws `refuseConfig(words)` if it cannot be used; then the one from before is kept. */
  onConfigUpdate?: (config: Config) => any;
  onProjectActivated?: (project: string, config: Config) => any;
  onProjectDeactivated?: (project: string) => any;
  /** The handshake is done: storage and notifications work. */
  onReady?: (host: HostInfo) => any;
  onShutdown?: () => any;
}

export interface Plugin<Config = Record<string, any>> {
  readonly name: string;
  readonly version: string;
  readonly log: Log;
  readonly storage: Storage;
  /** What config.update told last. */
  readonly config: Config;
  /** The names of the active projects, sorted. */
  readonly projects: string[];
  /** What initialize told; null before it. */
  readonly host: HostInfo | null;
  /** Takes over stdin and stdout, or the transport of a test. */
  start(transport?: Transport): void;
  /** Waits for the handshake if it is not done yet. */
  notify(type: string, params?: object): void;
}

type State = "new" | "greeted" | "open" | "ending";
type Settle = { resolve(value: any): void; reject(error: Error): void };
type Run = (params: Params, context: CallContext<any>) => unknown;

const CONTEXT_KEYS = ["operator_id", "project_id", "agent_path", "session_id", "request_id"] as const;
const BEFORE_OPEN = new Set(["ping", "config.update", "projects.activated", "projects.deactivated"]);

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null)?.then === "function";
}

function readContext(params: Params, config: unknown): CallContext<any> {
  const given = params["_context"] ?? {};
  const context: Params = { ...given };
  for (const key of CONTEXT_KEYS) {
    const value = given[key] ?? null;
    if (value !== null && typeof value !== "string")
      throw invalidParams(`_context.${key} is neither a string nor null`);
    context[key] = value;
  }
  context["config"] = params["_config"] ?? config;
  return context as CallContext<any>;
}

function checkParams(params: unknown): Params {
  if (params === undefined) return {};
  if (!isObject(params)) throw invalidParams("they are not an object");
  for (const key of ["_context", "_config"])
    if (Object.hasOwn(params, key) && !isObject(params[key]))
      throw invalidParams(`${key} is not an object`);
  return params;
}

/** The error that answers; a bug's words stay in the log. */
function wireError(error: unknown): object {
  if (!(error instanceof PluginError))
    return { code: ErrorCode.internal, message: "internal error" };
  const code = Number.isInteger(error.code) ? error.code : ErrorCode.plugin;
  return { code, message: error.message, ...(error.data === undefined ? {} : { data: error.data }) };
}

/** The line of a message, or null if the host would not take it. */
function encode(message: object): string | null {
  let text: string;
  try {
    text = JSON.stringify({ jsonrpc: "2.0", ...message });
  } catch {
    return null;
  }
  const fits = text.length <= LINE_BYTES_MAX && Buffer.byteLength(text) <= LINE_BYTES_MAX;
  return fits && isTakenByHost(text) ? text : null;
}

class Core<Config> implements Plugin<Config> {
  readonly name: string;
  readonly version: string;
  readonly log: Log;
  readonly storage: Storage;
  host: HostInfo | null = null;
  config = {} as Config;

  readonly #options: PluginOptions<Config>;
  readonly #handlers = new Map<string, Run>();
  readonly #system: Map<string, Run>;
  readonly #projects = new Set<string>();
  readonly #pending = new Map<number, Settle>();
  readonly #running = new Set<Promise<void>>();
  readonly #cancels = new Map<Id, AbortController>(); // of calls that run
  #transport: Transport | null = null;
  #state: State = "new";
  #lastId = 0;
  #early: string[] = []; // lines that wait for `initialized`
  #configuring = 0;
  #held: (Request | Notification)[] = []; // what came after a config.update that is not done yet

  constructor(options: PluginOptions<Config>) {
    this.#options = options;
    this.name = options.name;
    this.version = options.version;
    this.log = createLog((line) => (this.#transport ?? console).log(line));
    this.storage = createStorage((method, params) => this.#request(method, params));
    const register = (prefix: string, handlers: object = {}) => {
      for (const [name, handler] of Object.entries(handlers))
        if (handler !== undefined) this.#handlers.set(prefix + name, handler);
    };
    register("", options.methods);
    register(`${options.name}.`, options.tools);
    register("kaged.hook.", options.hooks);
    this.#system = new Map<string, Run>([
      ["initialize", (params) => this.#initialize(params)],
      ["initialized", () => this.#open()],
      ["ping", () => ({ status: "ok" })],
      ["config.update", (params) => this.#configure(params)],
      ["projects.activated", (params) => this.#activate(params)],
      ["projects.deactivated", (params) => this.#deactivate(params)],
      ["shutdown", () => void this.#end()],
    ]);
  }

  get projects(): string[] {
    return [...this.#projects].sort();
  }

  start(transport: Transport = openStdio()): void {
    if (this.#transport !== null) throw new Error(`plugin ${this.name} was started before`);
    this.#transport = transport;
    const lines = new LineReader({
      onLine: (line) => this.#take(readMessage(line)),
      onOversize: () => this.#take(parseError("the line is too long")),
    });
    transport.read((chunk) => lines.push(chunk), () => void this.#end());
  }

  notify(type: string, params: object = {}): void {
    const line = encode({ method: type, params });
    if (line === null) throw new Error(`notification ${type} is too large, too deep, or not JSON`);
    this.#sendWhenOpen(line);
  }

  // -- out -----------------------------------------------------------------------------------------

  #send(line: string): void {
    this.#transport?.write(line);
  }

  #sendWhenOpen(line: string): void {
    if (this.#state === "new" || this.#state === "greeted") this.#early.push(line);
    else this.#send(line);
  }

  #answer(id: Id | null, outcome: { result: unknown } | { error: unknown }): void {
    const answer = { id, ...("result" in outcome ? { result: outcome.result ?? null } : { error: wireError(outcome.error) }) };
    const line = encode(answer);
    if (line === null) this.log.error("an answer is too large, too deep, or not JSON", { id });
    this.#send(line ?? encode({ id, error: { code: ErrorCode.internal, message: "internal error: the answer cannot be sent" } })!);
  }

  async #request(method: string, params: object): Promise<any> {
    if (this.#state === "ending") throw new Error(`${method}: the plugin is ending`);
    if (this.#configuring > 0 && this.#state !== "open")
      throw new PluginError(ErrorCode.notInitialized, `${method}: it works after the handshake only`);
    const line = encode({ id: this.#lastId + 1, method, params });
    if (line === null) throw new Error(`${method}: the request is too large, too deep, or not JSON`);
    const id = ++this.#lastId;
    const answer = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    this.#sendWhenOpen(line);
    return answer;
  }

  // -- in ------------------------------------------------------------------------------------------

  #take(message: Incoming | null): void {
    if (message === null || this.#state === "ending") return;
    switch (message.kind) {
      case "refusal":
        this.#send(encode({ id: message.id, error: { code: message.code, message: message.message } })!);
        break;
      case "response":
        this.#settle(message);
        break;
      default:
        // A call that follows a config.update sees what that has told.
        if (this.#configuring > 0 && message.method !== "ping") this.#held.push(message);
        else this.#dispatch(message);
    }
  }

  #settle({ id, result, error }: Response): void {
    const waiting = typeof id === "number" ? this.#pending.get(id) : undefined;
    if (waiting === undefined) return;
    this.#pending.delete(id as number);
    if (error === undefined) waiting.resolve(result);
    else if (result === undefined && isObject(error) && Number.isInteger(error["code"]) && typeof error["message"] === "string")
      waiting.reject(new PluginError(error["code"], error["message"], error["data"]));
    else waiting.reject(new Error("the host's answer is malformed"));
  }

  #dispatch(message: Request | Notification): void {
    const id = message.kind === "request" ? message.id : null;
    const done = (outcome: { result: unknown } | { error: unknown }) => {
      if ("error" in outcome && !(outcome.error instanceof PluginError))
        this.log.error(`${message.method} failed`, { error: outcome.error });
      if (id !== null) this.#cancels.delete(id);
      if (id !== null) this.#answer(id, outcome);
    };
    try {
      const result = this.#run(message);
      if (!isThenable(result)) return done({ result });
      const running: Promise<void> = Promise.resolve(result)
        .then((value) => done({ result: value }), (error) => done({ error }))
        .finally(() => this.#running.delete(running));
      this.#running.add(running);
    } catch (error) {
      done({ error });
    }
  }

  #run(message: Request | Notification): unknown {
    const { method } = message;
    const isRequest = message.kind === "request";
    this.#checkState(method, isRequest);
    if (!isRequest && method === "kaged.cancel") return this.#cancel(message.params);
    const run = this.#system.get(method) ?? this.#handlers.get(method);
    if (run === undefined) throw new PluginError(ErrorCode.methodNotFound, "method not found");
    // What comes too early as a notification, or says something to nobody, is passed over.
    if (!isRequest && (method === "initialize" || method === "ping")) return null;
    const params = checkParams(message.params);
    const context = readContext(params, this.config);
    const { _context, _config, ...rest } = params;
    this.#follow(context, isRequest ? message.id : null);
    return run(rest, context);
  }

  /** What a handler can tell of its call, and hear of it. */
  #follow(context: CallContext<any>, id: Id | null): void {
    const controller = new AbortController();
    if (id !== null) this.#cancels.set(id, controller);
    Object.defineProperties(context, {
      signal: { value: controller.signal },
      progress: {
        value: (progress: number, total?: number, message?: string) => {
          if (id !== null) this.notify("kaged.progress", { id, progress, total, message });
        },
      },
      ask: {
        value: (title: string, options: { schema?: object; url?: string } = {}) =>
          this.#request("kaged.ask", { title, schema: options.schema, url: options.url }),
      },
      sample: { value: (params: object) => this.#request("kaged.sample", params) },
    });
  }

  #cancel(params: unknown): null {
    const id = isObject(params) ? params["id"] : undefined;
    if (typeof id === "number" || typeof id === "string") this.#cancels.get(id)?.abort();
    return null;
  }

  #checkState(method: string, isRequest: boolean): void {
    const open = this.#state === "open";
    const allowed = open || method === "initialize" || (!isRequest && method === "shutdown") ||
      (this.#state === "greeted" && (BEFORE_OPEN.has(method) || method === "initialized" || method === "shutdown"));
    if (!allowed) throw new PluginError(ErrorCode.notInitialized, "not initialized");
  }

  // -- system methods ------------------------------------------------------------------------------

  #initialize(params: Params): object {
    if (this.#state !== "new") throw new PluginError(ErrorCode.invalidRequest, "invalid request: initialize came before");
    if (params["api_version"] !== API_VERSION)
      throw invalidParams(`this plugin speaks api_version ${API_VERSION}`);
    if (params["plugin_name"] !== undefined && params["plugin_name"] !== this.name)
      throw invalidParams(`plugin_name is not ${this.name}`);
    this.#state = "greeted";
    const projects = Array.isArray(params["projects"]) ? params["projects"] : [];
    for (const project of projects) if (typeof project === "string") this.#projects.add(project);
    this.host = {
      daemon_version: String(params["daemon_version"] ?? ""),
      api_version: API_VERSION,
      plugin_name: this.name,
      storage_available: params["storage_available"] === true,
      projects: this.projects,
    };
    return {
      name: this.name,
      version: this.version,
      api_version: API_VERSION,
      methods: Object.keys(this.#options.methods ?? {}),
      notifications: [...(this.#options.notifications ?? [])],
      capabilities_used: [...(this.#options.capabilities ?? [])],
    };
  }

  #open(): void {
    if (this.#state !== "greeted") return;
    this.#state = "open";
    for (const line of this.#early.splice(0)) this.#send(line);
    const ready = async () => this.#options.onReady?.(this.host!);
    ready().catch((error) => this.log.error("onReady failed", { error }));
  }

  #configure(params: Params): unknown {
    const config = params["config"];
    if (!isObject(config)) throw invalidParams("config is not an object");
    const keep = () => {
      this.config = config as Config;
    };
    const leave = () => {
      this.#configuring--;
      this.#release();
    };
    let told: unknown;
    this.#configuring++;
    try {
      told = this.#options.onConfigUpdate?.(config as Config);
    } finally {
      if (!isThenable(told)) leave();
    }
    return isThenable(told) ? Promise.resolve(told).then(keep).finally(leave) : keep();
  }

  #release(): void {
    while (this.#configuring === 0 && this.#held.length > 0) this.#dispatch(this.#held.shift()!);
  }

  #project(params: Params): string {
    const project = params["project"];
    if (typeof project !== "string") throw invalidParams("project is not a string");
    return project;
  }

  #activate(params: Params): unknown {
    const project = this.#project(params);
    this.#projects.add(project);
    const config = isObject(params["config"]) ? params["config"] : {};
    return this.#quietly(this.#options.onProjectActivated?.(project, config as Config));
  }

  #deactivate(params: Params): unknown {
    const project = this.#project(params);
    this.#projects.delete(project);
    return this.#quietly(this.#options.onProjectDeactivated?.(project));
  }

  /** What such a handler returns is nobody's business. */
  #quietly(told: unknown): unknown {
    return isThenable(told) ? Promise.resolve(told).then(() => null) : null;
  }

  // -- the end -------------------------------------------------------------------------------------

  async #end(): Promise<void> {
    if (this.#state === "ending") return;
    this.#state = "ending";
    for (const waiting of this.#pending.values()) waiting.reject(new Error("the plugin is ending"));
    this.#pending.clear();
    await Promise.resolve(); // a shutdown that is a request is answered first
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, FINISH_MS)));
    await Promise.race([Promise.allSettled([...this.#running]), late]);
    clearTimeout(timer);
    try {
      await this.#options.onShutdown?.();
    } catch (error) {
      this.log.error("onShutdown failed", { error });
    }
    this.#transport?.end();
  }
}

export function createPlugin(options: PluginOptions): Plugin {
  return new Core(options);
}

/**
 * The same with a type for the configuration: `createPluginWith<MyConfig>()({...})`. In two steps,
 * since handlers use the plugin that they are part of: were anything inferred, TypeScript would find
 * a circle.
 */
export function createPluginWith<Config>(): (options: PluginOptions<Config>) => Plugin<Config> {
  return (options) => new Core(options);
}
