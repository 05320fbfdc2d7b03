// Figures over time, as the daemon keeps them for the last minutes.
import type { Schemas } from "./api";

export interface Course {
  times: number[]; // seconds
  rate: number[]; // calls a second
  errors: number[];
  p50: (number | null)[]; // microseconds; null: nothing was called
  p99: (number | null)[];
  now: number; // calls a second, in the last step
}

const LEAST = 24; // steps

// since: when it began, if that is not longer ago than what is kept.
export function courseOf({ step_ms, until, ...kept }: Schemas["Course"], since?: string): Course {
  const end = Date.parse(until) / 1000;
  const step = step_ms / 1000;
  const shown = since ? Math.max(LEAST, Math.ceil((end - Date.parse(since) / 1000) / step)) : Infinity;
  const [calls, errors, p50_us, p99_us] = [kept.calls, kept.errors, kept.p50_us, kept.p99_us].map((one) => (shown < one.length ? one.slice(-shown) : one));
  const perSecond = (counts: number[]) => counts.map((one) => one / step);
  const known = (durations: number[]) => durations.map((one, at) => (calls[at] > 0 ? one : null));
  const rate = perSecond(calls);
  return { times: calls.map((_, at) => end - (calls.length - 1 - at) * step), rate, errors: perSecond(errors), p50: known(p50_us), p99: known(p99_us), now: rate.at(-1) ?? 0 };
}
