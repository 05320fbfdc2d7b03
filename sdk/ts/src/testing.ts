/**
 * A host in memory, for unit tests of plugins: no daemon, no process, no file. Both sides speak the
 * real lines of JSON, so that what could not be sent fails here, too.
 *
 *     const host = await startHost(plugin, { config: { budget: "low" } });
 *     assert.deepEqual(await host.call("notes.add", { text: "hi" }), { id: 1 });
 *     await host.stop();
 */
import { ErrorCode, PluginError } from "./errors.js";
import { API_VERSION, type Plugin } from "./plugin.js";
import type { Transport } from "./stdio.js";
import type { HookName, PluginCallContext } from "./types.js";

export interface TestHostOptions {
  /** Sent by config.update, in its place in the handshake. */
  config?: object;
  projects?: string[];
  /** Answers the plugin's requests (`kaged.storage.query`, ...); throws PluginError to refuse. */
  answer?: (method: string, params: any) => unknown;
}

export interface CallOptions {
  context?: Partial<PluginCallContext>;
  /** The call's own configuration. */
  config?: object;
}

export interface TestHost {
  /** What the plugin answered to initialize. */
  readonly introduction: any;
  /** What the plugin sent so far. */
  readonly notifications: { method: string; params: any }[];
  /** The lines of its log. */
  readonly logs: any[];
  /** A method's result; its error is thrown as PluginError. */
  call(method: string, params?: object, options?: CallOptions): Promise<any>;
  /** By its short name. */
  tool(name: string, args?: object, options?: CallOptions): Promise<any>;
  hook(name: HookName, params?: object, options?: CallOptions): Promise<any>;
  configure(config: object): Promise<void>;
  activate(project: string, config?: object): Promise<void>;
  deactivate(project: string): Promise<void>;
  /** Any request, as it is. */
  request(method: string, params?: unknown): Promise<any>;
  notify(method: string, params?: unknown): void;
  /** Any bytes, as they are; answers without an id that is waited for are in `strays`. */
  send(text: string): void;
  readonly strays: any[];
  /** Shuts it down; its onShutdown has run then. */
  stop(): Promise<void>;
}

type Settle = { resolve(value: any): void; reject(error: Error): void };

class Host implements TestHost, Transport {
  introduction: any = null;
  readonly notifications: { method: string; params: any }[] = [];
  readonly logs: any[] = [];
  readonly strays: any[] = [];

  readonly #plugin: Plugin<any>;
  readonly #answer: NonNullable<TestHostOptions["answer"]>;
  readonly #waiting = new Map<number, Settle>();
  #onChunk: (chunk: Uint8Array) => void = () => {};
  #onEnd: () => void = () => {};
  #ended: () => void = () => {};
  #end = new Promise<void>((resolve) => (this.#ended = resolve));
  #lastId = 0;

  constructor(plugin: Plugin<any>, answer: TestHostOptions["answer"]) {
    this.#plugin = plugin;
    this.#answer = answer ?? (() => {
      throw new PluginError(ErrorCode.methodNotFound, "method not found");
    });
  }

  // -- the plugin's side

  read(onChunk: (chunk: Uint8Array) => void, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
  }

  log(line: string): void {
    this.logs.push(JSON.parse(line));
  }

  end(): void {
    this.#ended();
  }

  write(line: string): void {
    const message = JSON.parse(line);
    if (message.method === undefined) this.#settle(message);
    else if (message.id === undefined) this.notifications.push({ method: message.method, params: message.params });
    else void this.#serve(message);
  }

  #settle(message: any): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (waiting === undefined) this.strays.push(message);
    else if (message.error === undefined) waiting.resolve(message.result);
    else waiting.reject(new PluginError(message.error.code, message.error.message, message.error.data));
  }

  async #serve({ id, method, params }: { id: number; method: string; params: unknown }): Promise<void> {
    try {
      this.#write({ id, result: (await this.#answer(method, params)) ?? null });
    } catch (error) {
      const { code, message, data } = error instanceof PluginError ? error
        : { code: ErrorCode.internal, message: String(error), data: undefined };
      this.#write({ id, error: { code, message, data } });
    }
  }

  // -- the test's side

  #write(message: object): void {
    this.send(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  send(text: string): void {
    this.#onChunk(Buffer.from(text));
  }

  notify(method: string, params: unknown = {}): void {
    this.#write({ method, params });
  }

  request(method: string, params: unknown = {}): Promise<any> {
    const id = ++this.#lastId;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    this.#write({ id, method, params });
    return answer;
  }

  call(method: string, params: object = {}, { context = {}, config }: CallOptions = {}): Promise<any> {
    const own = {
      operator_id: "tester", project_id: null, agent_path: null, session_id: null,
      request_id: `req_${this.#lastId + 1}`, ...context,
    };
    return this.request(method, { ...params, _context: own, ...(config === undefined ? {} : { _config: config }) });
  }

  tool(name: string, args?: object, options?: CallOptions): Promise<any> {
    return this.call(`${this.#plugin.name}.${name}`, args, options);
  }

  hook(name: HookName, params?: object, options?: CallOptions): Promise<any> {
    return this.call(`kaged.hook.${name}`, params, options);
  }

  configure(config: object): Promise<void> {
    return this.request("config.update", { config });
  }

  activate(project: string, config: object = {}): Promise<void> {
    return this.request("projects.activated", { project, config });
  }

  deactivate(project: string): Promise<void> {
    return this.request("projects.deactivated", { project });
  }

  async start({ config, projects = [] }: TestHostOptions): Promise<void> {
    this.#plugin.start(this);
    this.introduction = await this.request("initialize", {
      daemon_version: "0.0.0", api_version: API_VERSION, plugin_name: this.#plugin.name,
      storage_available: true, projects,
    });
    if (config !== undefined) await this.configure(config);
    this.notify("initialized");
  }

  stop(): Promise<void> {
    this.notify("shutdown");
    this.#onEnd();
    return this.#end;
  }
}

/** The handshake, with the configuration in its place. */
export async function startHost(plugin: Plugin<any>, options: TestHostOptions = {}): Promise<TestHost> {
  const host = new Host(plugin, options.answer);
  await host.start(options);
  return host;
}
