// Up to which message something was kept of each session, so that what was forgotten on purpose does not come
// back from an old message. Ids of messages sort by time.
import type { Message } from "@kaged/plugin-sdk";
import type { Folder } from "./folder.js";

const NAME = ".seen.json";
const SESSIONS_MAX = 300;

function read(folder: Folder): Map<string, string> {
  try {
    const pairs: unknown = JSON.parse(folder.readNote(NAME) ?? "{}");
    return new Map(Object.entries(pairs ?? {}).filter(([, id]) => typeof id === "string"));
  } catch {
    return new Map(); // somebody edited it; then it begins anew
  }
}

/** The messages that are new, and a function to call once something of them was kept. */
export function takeNew(folder: Folder, session: string, messages: readonly Message[]):
  { fresh: Message[]; done: () => void } {
  const seen = read(folder);
  const last = seen.get(session) ?? "";
  const fresh = messages.filter(({ id }) => id === undefined || id > last);
  const newest = fresh.reduce((most, { id }) => (id !== undefined && id > most ? id : most), last);
  const done = () => {
    if (newest === last) return;
    seen.delete(session);
    seen.set(session, newest);
    const pairs = [...seen].slice(-SESSIONS_MAX);
    folder.writeNote(NAME, `${JSON.stringify(Object.fromEntries(pairs), null, 1)}\n`);
  };
  return { fresh, done };
}
