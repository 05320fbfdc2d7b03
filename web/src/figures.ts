// Figures over time: the page keeps what it saw, the daemon only has what is now.
import { useRef } from "preact/hooks";

const KEPT = 300;

export interface Sample {
  at: number; // seconds
  calls: number;
  errors: number;
  memory: number;
}
export interface Course {
  times: number[];
  rate: (number | null)[]; // calls a second
  errors: (number | null)[];
  memory: number[];
  now: number | null; // calls a second, now
}

export function courseOf(samples: Sample[]): Course {
  const per = (key: "calls" | "errors") =>
    samples.map((sample, index) => {
      const before = samples[index - 1];
      if (!before || sample[key] < before[key]) return null; // the daemon started anew
      return (sample[key] - before[key]) / Math.max(sample.at - before.at, 0.001);
    });
  const rate = per("calls");
  return { times: samples.map((one) => one.at), rate, errors: per("errors"), memory: samples.map((one) => one.memory), now: rate.at(-1) ?? null };
}

export function useCourse(latest: { calls: number; errors: number; memory_bytes: number } | undefined): Course {
  const samples = useRef<Sample[]>([]);
  const seen = useRef<unknown>(undefined);
  if (latest && latest !== seen.current) {
    seen.current = latest;
    const sample = { at: Date.now() / 1000, calls: latest.calls, errors: latest.errors, memory: latest.memory_bytes };
    samples.current = [...samples.current.slice(-KEPT), sample];
  }
  return courseOf(samples.current);
}
