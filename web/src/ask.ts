// Asks the daemon for what a view shows, and asks again when it may have changed.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { epoch, type Happening, useHappenings } from "./live";

export interface Asked<T> {
  value: T | undefined; // the last that came, also while a newer one is on its way
  error: Error | undefined;
  again: () => void;
}
interface When {
  every?: number; // milliseconds, while the page is seen
  on?: (happening: Happening) => boolean;
}

export function useAsk<T>(ask: () => Promise<T>, inputs: unknown[], when: When = {}): Asked<T> {
  const [state, setState] = useState<{ key: string; value?: T; error?: Error }>({ key: "" });
  const key = JSON.stringify(inputs);
  const turn = useRef(0);
  const latest = useRef(ask);
  latest.current = ask;
  const again = useCallback(() => {
    const mine = ++turn.current;
    latest.current().then(
      (value) => mine === turn.current && setState({ key, value }),
      (error) => mine === turn.current && setState((old) => ({ key, error, value: old.key === key ? old.value : undefined })),
    );
  }, [key]);

  useLayoutEffect(again, [key, epoch.value]); // now, not after the next frame
  useEffect(() => {
    if (!when.every) return;
    const timer = setInterval(() => document.visibilityState === "visible" && again(), when.every);
    return () => clearInterval(timer);
  }, [again, when.every]);
  const soon = useRef<number | undefined>(undefined);
  useHappenings((batch) => {
    if (!when.on || soon.current !== undefined || !batch.some((one) => one.type === "missed" || when.on!(one))) return;
    soon.current = setTimeout(() => {
      soon.current = undefined;
      again();
    }, 150);
  });
  const mine = state.key === key;
  return { value: mine ? state.value : undefined, error: mine ? state.error : undefined, again };
}
