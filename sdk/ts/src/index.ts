export { ErrorCode, PluginError, invalidParams, refuseConfig } from "./errors.js";
export type { Log, LogFields, LogLevel } from "./log.js";
export { API_VERSION, createPlugin, createPluginWith, type Plugin, type PluginOptions } from "./plugin.js";
export type { Transport } from "./stdio.js";
export type {
  ExecResult, Row, Rows, SqlParams, SqlValue, Statement, Storage,
} from "./storage.js";
export {
  compacted,
  type CallContext, type CompactParams, type CompactorResult, type Handler, type HookName, type Hooks,
  type HostInfo, type IdleParams, type Injection, type Json, type Message, type Params,
  type PluginCallContext, type Role,
} from "./types.js";
export type { Knob, Manifest } from "./generated/manifest.js";
