import type { Manifest } from "./generated/manifest.js";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Who calls. The three in the middle are all set, in a session, or all null. */
export interface PluginCallContext {
  operator_id: string | null;
  project_id: string | null;
  agent_path: string | null;
  session_id: string | null;
  request_id: string;
  /** Only in a process that serves one project. */
  project_root?: string;
}

/** What handlers get: who calls, and the configuration that holds for this call. */
export interface CallContext<Config = Record<string, any>> extends PluginCallContext {
  config: Config;
  /** Aborted when who called has left: the work may end, and the call is answered all the same. */
  readonly signal: AbortSignal;
  /** Tells who called how far it is; the figure does not fall. */
  progress(progress: number, total?: number, message?: string): void;
  /** Asks the person of the session, by a form or to open a page. Needs kaged:ask. */
  ask(title: string, options?: { schema?: object; url?: string }): Promise<Answer>;
  /** Asks the model of the session: params and result of MCP's sampling/createMessage. Needs kaged:sample. */
  sample(params: SampleParams): Promise<Sample>;
}

/** content is there for a form that was accepted, and fits its schema. */
export interface Answer {
  action: "accept" | "decline" | "cancel";
  content?: Record<string, any>;
}

export interface SampleParams {
  messages: { role: "user" | "assistant"; content: { type: "text"; text: string } }[];
  systemPrompt?: string;
  maxTokens: number;
  [key: string]: unknown;
}

export interface Sample {
  role: "assistant";
  content: { type: "text"; text: string };
  model: string;
  stopReason?: string;
}

export type Params = Record<string, any>;

/** What it returns, or what its promise becomes, is the result; nothing is null. */
export type Handler<Config = Record<string, any>, P = Params, R = any> = (
  params: P,
  context: CallContext<Config>,
) => R | Promise<R>;

/** What initialize told. */
export interface HostInfo {
  daemon_version: string;
  api_version: number;
  plugin_name: string;
  storage_available: boolean;
  projects: string[];
}

// -- hooks ---------------------------------------------------------------------------------------

export type HookName = NonNullable<Manifest["hooks"]>[number];
export type Role = NonNullable<Manifest["roles"]>[number];

export interface Message {
  /** Messages of the session have one; those that a compactor adds have none. */
  id?: string;
  role: string;
  content: any;
  [key: string]: any;
}

export interface IdleParams {
  transcript: Message[];
  /** So many of the oldest messages were left out. */
  truncated?: number;
}

export interface CompactParams {
  role: Role;
  messages_being_compacted: Message[];
  messages_remaining: Message[];
  strategy: string;
  trigger: string;
  truncated?: number;
  [key: string]: any;
}

/** What an observer gives back: a text that the model shall read, lines that it shall keep. */
export interface Injection {
  inject?: string;
  retain?: string[];
}

export interface CompactorResult {
  role: "compactor";
  /** The whole new list. */
  messages: Message[];
  /** The ids of those that it replaces. */
  superseded: string[];
  summary?: string;
}

type Optional<R> = R | string | null | undefined | void;

export interface Hooks<Config = Record<string, any>> {
  on_session_start?: Handler<Config, Params, Optional<Pick<Injection, "inject">>>;
  on_session_idle?: Handler<Config, IdleParams>;
  pre_compact?: Handler<Config, CompactParams, Optional<Injection | CompactorResult>>;
  post_compact?: Handler<Config, CompactParams, Optional<Injection>>;
}

/** The answer of a compactor to pre_compact. */
export function compacted(result: Omit<CompactorResult, "role">): CompactorResult {
  return { role: "compactor", ...result };
}
