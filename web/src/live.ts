// What happens in the daemon, as it happens: one WebSocket for the whole page, which comes back by itself.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { enter, session } from "./api";

export interface Happening {
  type: "notification" | "state" | "audit" | "question" | "missed";
  plugin?: string;
  event?: string; // of the audit log
  to?: string; // the new state
  [member: string]: unknown;
}
export type Link = "connecting" | "live" | "lost";

export const link = signal<Link>("connecting");
// Grows when the daemon is there again: whoever asked something asks again.
export const epoch = signal(0);

const RETRY_MS = [250, 500, 1000, 2000, 5000];
const HELD_MAX = 5000; // of what waits for the next frame
const listeners = new Set<(happenings: Happening[]) => void>();
let held: Happening[] = [];
let attempts = 0;

function flush(): void {
  const batch = held;
  held = [];
  for (const listener of [...listeners]) listener(batch);
}

function take(text: string): void {
  if (held.length === 0) setTimeout(flush, 60);
  if (held.length < HELD_MAX) held.push(JSON.parse(text));
}

async function retry(): Promise<void> {
  const wait = RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)];
  await new Promise((resolve) => setTimeout(resolve, wait));
  try {
    await enter(); // the session may have ended meanwhile
  } catch {
    return retry();
  }
  if (session.value) connect();
}

export function connect(): void {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/events`);
  socket.onopen = () => {
    if (attempts > 0) epoch.value++;
    attempts = 0;
    link.value = "live";
  };
  socket.onmessage = (message) => take(message.data);
  socket.onclose = () => {
    link.value = "lost";
    void retry();
  };
}

export function useHappenings(listener: (happenings: Happening[]) => void): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => {
    const relay = (batch: Happening[]) => latest.current(batch);
    listeners.add(relay);
    return () => void listeners.delete(relay);
  }, []);
}
