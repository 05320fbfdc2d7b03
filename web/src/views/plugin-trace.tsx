// What is said with a plugin, as it is said.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, lines, type Schemas, send } from "../api";
import { Act, Card, Empty, Json, noteError, Virtual } from "../ui";
import { clock, harmless } from "../words";

const KEPT = 5000;
type Line = Record<string, unknown>;

export function Trace({ plugin, again }: { plugin: Schemas["Plugin"]; again: () => void }) {
  const [records, setRecords] = useState<Line[]>([]);
  const [on, setOn] = useState(false);
  const [open, setOpen] = useState<Line | null>(null);
  const held = useRef<Line[]>([]);
  useEffect(() => {
    if (!on) return;
    const ended = new AbortController();
    const timer = setInterval(() => {
      const some = held.current.splice(0);
      if (some.length > 0) setRecords((old) => [...old, ...some].slice(-KEPT));
    }, 100);
    const follow = async () => {
      const answer = await send("GET /api/v1/plugins/{name}/trace", { path: { name: plugin.name }, query: { of: "live" }, signal: ended.signal });
      for await (const line of lines(answer)) held.current.push(line);
      setOn(false);
    };
    follow().catch((error) => {
      if (ended.signal.aborted) return;
      noteError(error);
      setOn(false);
    });
    return () => {
      ended.abort();
      clearInterval(timer);
    };
  }, [on, plugin.name]);
  const record = (wanted: boolean) => call("POST /api/v1/plugins/{name}/trace", { path: { name: plugin.name }, body: { record: wanted } }).then(again);
  return (
    <Card
      title="Its messages"
      aside={
        <>
          <Act act={() => record(!plugin.recording)}>{plugin.recording ? "Stop the recorder" : "Record"}</Act>
          <Act kind={on ? undefined : "primary"} act={() => setOn(!on)}>{on ? "Stop following" : "Follow"}</Act>
        </>
      }
    >
      {records.length === 0 ? (
        <Empty title={on ? "No messages yet" : "Nothing is followed"}>{on ? "Calls, answers and notifications appear here live." : "Follow shows messages from now on; secrets are redacted. The audit log records that somebody follows."}</Empty>
      ) : (
        <Virtual
          class="log tall"
          label="Trace"
          follow
          rows={records}
          height={24}
          render={(one) => (
            <button type="button" class="plain linebutton" onClick={() => setOpen(one)}>
              <span class="faint">{one.at || one.ts ? clock(String(one.at ?? one.ts)) : ""}</span> {harmless(JSON.stringify(one)).slice(0, 400)}
            </button>
          )}
        />
      )}
      {open && <Json value={open} label="One record" />}
    </Card>
  );
}
