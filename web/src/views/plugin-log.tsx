// What a plugin wrote on stderr, as it comes. Its lines are long enough to be many, and may say anything.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { epoch } from "../live";
import { Card, Empty, noteError, Virtual } from "../ui";
import { harmless, plural } from "../words";

const KEPT = 20_000;
const WAIT_MS = 20_000;

function useLog(name: string): string[] | undefined {
  const [lines, setLines] = useState<string[] | undefined>(undefined);
  useEffect(() => {
    const ended = new AbortController();
    const follow = async () => {
      const path = { name };
      let { lines: some, cursor } = await call("GET /api/v1/plugins/{name}/logs", { path, query: { lines: 5000 }, signal: ended.signal });
      setLines(some);
      for (;;) {
        ({ lines: some, cursor } = await call("GET /api/v1/plugins/{name}/logs", { path, query: { after: cursor, wait_ms: WAIT_MS }, signal: ended.signal }));
        const more = some;
        if (more.length > 0) setLines((old) => [...(old ?? []), ...more].slice(-KEPT));
      }
    };
    follow().catch((error) => ended.signal.aborted || noteError(error));
    return () => ended.abort();
  }, [name, epoch.value]);
  return lines;
}

export function Log({ name }: { name: string }) {
  const lines = useLog(name);
  const [find, setFind] = useState("");
  const wanted = find.toLowerCase();
  const rows = wanted ? (lines ?? []).filter((line) => line.toLowerCase().includes(wanted)) : (lines ?? []);
  return (
    <Card
      title={lines ? plural(lines.length, "line") : "Log"}
      aside={<input type="search" placeholder="Find in the log" aria-label="Find in the log" value={find} onInput={(event) => setFind(event.currentTarget.value)} />}
    >
      {!lines ? (
        <p class="faint">Loading…</p>
      ) : rows.length === 0 ? (
        <Empty title={wanted ? "No line matches" : "Nothing written yet"}>{!wanted && "The plugin's stderr appears here live."}</Empty>
      ) : (
        <Virtual class="log tall" label="Log" follow={!wanted} rows={rows} height={20} render={(line) => <span title={harmless(line)}>{harmless(line)}</span>} />
      )}
    </Card>
  );
}
