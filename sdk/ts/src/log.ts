// The plugin's log: one JSON object a line on stderr, which kaged keeps with the plugin's name.

const LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LEVELS)[number];
export type LogFields = Record<string, unknown>;

export type Log = Record<LogLevel, (message: string, fields?: LogFields) => void>;

function leastLevel(): number {
  const wanted = LEVELS.indexOf((process.env["KAGED_LOG_LEVEL"] ?? "info") as LogLevel);
  return wanted < 0 ? LEVELS.indexOf("info") : wanted;
}

// Errors have no enumerable members, and what cannot be written must not cost the line.
function plain(_key: string, value: unknown): unknown {
  if (value instanceof Error) return value.stack ?? `${value.name}: ${value.message}`;
  return typeof value === "bigint" ? value.toString() : value;
}

function encode(record: Record<string, unknown>): string {
  try {
    return JSON.stringify(record, plain);
  } catch (error) {
    const { time, level, message } = record;
    return JSON.stringify({ time, level, message, unwritable: String(error) });
  }
}

export function createLog(write: (line: string) => void): Log {
  const least = leastLevel();
  const at = (level: LogLevel) => (message: string, fields: LogFields = {}) => {
    if (LEVELS.indexOf(level) < least) return;
    const own = { time: new Date().toISOString(), level, message: String(message) };
    write(encode({ ...own, ...fields, ...own })); // ours stand first, and are never replaced
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
