/** The codes of JSON-RPC and of kaged. A plugin's own are from -32099 to -32000. */
export const ErrorCode = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  plugin: -32000,
  capabilityDenied: -32001,
  notInitialized: -32002,
  storageDenied: -32003,
  configInvalid: -32004,
  busy: -32005,
  notApplicable: -32006,
} as const;

/**
 * Thrown by a handler it is the answer, as it is; thrown by storage it is what the host said.
 * Without a code it is a plugin error like any other.
 */
export class PluginError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(message: string);
  constructor(code: number, message: string, data?: unknown);
  constructor(codeOrMessage: number | string, message = "", data?: unknown) {
    const hasCode = typeof codeOrMessage === "number";
    super(hasCode ? message : codeOrMessage);
    this.name = "PluginError";
    this.code = hasCode ? codeOrMessage : ErrorCode.plugin;
    this.data = data;
  }
}

/** The params do not fit the method: `invalidParams("name must be a string")`. */
export function invalidParams(words: string, data?: unknown): PluginError {
  return new PluginError(ErrorCode.invalidParams, `invalid params: ${words}`, data);
}

/** A configuration that the plugin cannot use, with words for the operator. */
export function refuseConfig(words: string, data?: unknown): PluginError {
  return new PluginError(ErrorCode.configInvalid, words, data);
}
