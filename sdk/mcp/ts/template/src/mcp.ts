/*
 * An MCP server on stdio, in one file without dependencies: tools, progress and cancellation.
 *
 *   const server = new Server("my-plugin", "0.1.0");
 *   server.tool("add", "Adds two numbers.", { a: { type: "number" }, b: { type: "number" } },
 *     ({ a, b }) => String(Number(a) + Number(b)));
 *   await server.run(process.stdin, process.stdout);
 *
 * It speaks the revisions up to 2025-11-25 and 2026-07-28. Logs belong on stderr: stdout is the wire.
 */
import { createInterface } from "node:readline";

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Fields = { [key: string]: Json };
export interface Schema {
  type?: string;
  description?: string;
  enum?: Json[];
  minLength?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
}
type Id = string | number | null;

export interface Call {
  /** Aborted when the caller has left: then nobody waits for the result. */
  signal: AbortSignal;
  /** Tells the caller how far the call is; the number has to rise. */
  progress(progress: number, total?: number, message?: string): void;
}
export type Handler = (args: Fields, call: Call) => string | Promise<string>;

export interface ToolResult {
  content: { type: "text"; text: string }[];
  isError?: boolean;
}

/** What a tool could not do, in words for who called it. */
export class ToolError extends Error {}

class RpcError extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

const LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MODERN = "2026-07-28";
const CACHED = { resultType: "complete", ttlMs: 0, cacheScope: "private" };

interface Tool {
  handler: Handler;
  name: string;
  description: string;
  inputSchema: Schema;
}

export class Server {
  private readonly tools = new Map<string, Tool>();
  private readonly calls = new Map<Id, AbortController>();
  private write: (line: string) => void = () => {};

  constructor(readonly name: string, readonly version: string) {}

  /** All properties are required unless `required` says which. */
  tool(name: string, description: string, properties: Record<string, Schema>, handler: Handler,
       required = Object.keys(properties)): void {
    const inputSchema = { type: "object", properties, required, additionalProperties: false };
    this.tools.set(name, { handler, name, description, inputSchema });
  }

  /** The result of a tool, as tools/call has it. */
  async call(name: string, args: Json, call?: Call): Promise<ToolResult> {
    const tool = this.tools.get(name);
    if (!tool) throw new RpcError(-32602, `Unknown tool: ${name}`);
    const problem = problemOf(tool.inputSchema, args);
    if (problem) return text(problem, true);
    try {
      return text(await tool.handler(args as Fields, call ?? { signal: new AbortController().signal, progress() {} }));
    } catch (error) {
      if (!(error instanceof ToolError)) console.error(error); // its caller is told, and the server lives on
      return text(error instanceof Error ? error.message : String(error), true);
    }
  }

  /** Serves until the input ends. */
  async run(input: NodeJS.ReadableStream, output: NodeJS.WritableStream): Promise<void> {
    this.write = (line) => output.write(line + "\n");
    for await (const line of createInterface({ input, crlfDelay: Infinity }))
      if (line.trim() !== "") this.take(line);
  }

  private say(message: object): void {
    this.write(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  private fail(id: Id, code: number, message: string): void {
    this.say({ id, error: { code, message } });
  }

  private take(line: string): void {
    let message: { id?: Id; method?: string; params?: Fields };
    try {
      message = JSON.parse(line);
    } catch {
      this.fail(null, -32700, "not JSON");
      return;
    }
    if (typeof message?.method !== "string") return;
    const params = isObject(message.params) ? message.params : {};
    if (message.method === "notifications/cancelled") this.calls.get(params.requestId as Id)?.abort();
    else if (message.id !== undefined) void this.answer(message.id, message.method, params);
  }

  private async answer(id: Id, method: string, params: Fields): Promise<void> {
    const controller = new AbortController();
    this.calls.set(id, controller);
    try {
      const result = await this.result(method, params, controller.signal);
      if (!controller.signal.aborted) this.say({ id, result });
    } catch (error) {
      this.fail(id, error instanceof RpcError ? error.code : -32603, String((error as Error).message));
    }
    this.calls.delete(id);
  }

  private async result(method: string, params: Fields, signal: AbortSignal): Promise<object> {
    const modern = isObject(params._meta) && "io.modelcontextprotocol/protocolVersion" in params._meta;
    const capabilities = { tools: {} };
    switch (method) {
      case "server/discover":
        return { supportedVersions: [MODERN], capabilities, ...CACHED };
      case "initialize": {
        const wanted = String(params.protocolVersion);
        return { protocolVersion: LEGACY.includes(wanted) ? wanted : LEGACY[0], capabilities,
                 serverInfo: { name: this.name, version: this.version } };
      }
      case "ping":
        return {};
      case "tools/list":
        return { tools: [...this.tools.values()].map(({ handler, ...declared }) => declared),
                 ...(modern ? CACHED : {}) };
      case "tools/call": {
        const call = { signal, progress: this.progressOf(params, signal) };
        const result = await this.call(String(params.name), params.arguments ?? {}, call);
        return modern ? { ...result, resultType: "complete" } : result;
      }
      default:
        throw new RpcError(-32601, `Method not found: ${method}`);
    }
  }

  private progressOf(params: Fields, signal: AbortSignal): Call["progress"] {
    const progressToken = isObject(params._meta) ? params._meta.progressToken : undefined;
    return (progress, total, message) => {
      if (progressToken === undefined || signal.aborted) return;
      this.say({ method: "notifications/progress", params: { progressToken, progress, total, message } });
    };
  }
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(words: string, isError = false): ToolResult {
  return { content: [{ type: "text", text: words }], ...(isError ? { isError } : {}) };
}

function hasType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return Array.isArray(value);
  return type === "object" ? isObject(value) : typeof value === type;
}

/** What is wrong with a value, by what the schema says of types, members and items; or undefined. */
function problemOf(schema: Schema, value: Json, name = "arguments"): string | undefined {
  if (schema.type !== undefined && !hasType(value, schema.type)) return `${name} must be a ${schema.type}`;
  if (schema.enum && !schema.enum.includes(value)) return `${name} must be one of ${schema.enum.join(", ")}`;
  if (typeof value === "string" && value.length < (schema.minLength ?? 0)) return `${name} is too short`;
  if (Array.isArray(value)) return first(value.map((item, at) => problemOf(schema.items ?? {}, item, `${name}[${at}]`)));
  return isObject(value) ? memberProblem(schema, value) : undefined;
}

function memberProblem(schema: Schema, value: Fields): string | undefined {
  const known = new Map(Object.entries(schema.properties ?? {}));
  for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) return `${name} is missing`;
  for (const name of Object.keys(value))
    if (!known.has(name) && schema.additionalProperties === false) return `there is no argument ${name}`;
  return first(Object.entries(value).map(([name, member]) => problemOf(known.get(name) ?? {}, member, name)));
}

function first(problems: (string | undefined)[]): string | undefined {
  return problems.find((problem) => problem !== undefined);
}
