// The audit log, as it is written. Filters are the daemon's, what is unfolded is the event as it is kept.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { epoch, useHappenings } from "../live";
import { Act, Card, Empty, Field, Json, note, noteError, Virtual } from "../ui";
import { clock, harmless, plural } from "../words";

type Event = Schemas["Audit"]["events"][number];
const FIRST = 10_000; // as many as the daemon tells at once
const KEPT = 100_000;
const ROW = 28;
const SINCE = ["15m", "1h", "6h", "24h", "7d", ""];

const BEFORE_ALL = `evt_${"0".repeat(26)}`;

interface Filter {
  plugin: string;
  event: string;
  since: string;
  whole: boolean; // all that fits, and not only the newest
}
const fits = (filter: Filter, event: Event): boolean =>
  (!filter.plugin || event.name === filter.plugin) &&
  (!filter.event || (filter.event.endsWith("*") ? event.event.startsWith(filter.event.slice(0, -1)) : event.event === filter.event));

// The newest, in one answer; or all, answer by answer from the oldest on.
async function ask({ whole, ...query }: Filter): Promise<Event[]> {
  if (!whole) return (await call("GET /api/v1/audit", { query: { ...query, limit: FIRST } })).events;
  let found: Event[] = [];
  for (;;) {
    const { events } = await call("GET /api/v1/audit", { query: { ...query, limit: FIRST, after: found.at(-1)?.id ?? BEFORE_ALL } });
    if (events.length === 0) return found;
    found = [...found, ...events].slice(-KEPT);
  }
}

// What is kept of the log, and goes on with what happens.
function useEvents(filter: Filter): Event[] | undefined {
  const [events, setEvents] = useState<Event[] | undefined>(undefined);
  const early = useRef<Event[]>([]);
  useEffect(() => {
    let mine = true;
    early.current = [];
    setEvents(undefined);
    ask(filter).then(
      (found) => {
        if (!mine) return;
        const known = new Set(found.slice(-200).map((one) => one.id));
        setEvents([...found, ...early.current.filter((one) => !known.has(one.id))]);
      },
      (error) => mine && (noteError(error), setEvents([])),
    );
    return () => {
      mine = false;
    };
  }, [filter.plugin, filter.event, filter.since, filter.whole, epoch.value]);
  useHappenings((batch) => {
    const more = batch.filter((one) => one.type === "audit").map(({ type: _, ...event }) => event as unknown as Event).filter((one) => fits(filter, one));
    if (more.length === 0) return;
    if (events === undefined) early.current.push(...more);
    else setEvents((old) => [...(old ?? []), ...more].slice(-KEPT));
  });
  return events;
}

const SHOWN_APART = new Set(["ts", "id", "event", "request_id", "name", "prev", "hash"]);
const restOf = (event: Event): string =>
  Object.entries(event)
    .filter(([key, value]) => !SHOWN_APART.has(key) && value !== null && value !== "")
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("  ");

async function verify(): Promise<void> {
  const report = await call("POST /api/v1/audit/verify");
  if (report.problem) note("failed", report.problem, "The log was changed or damaged since it was written.");
  else note("done", `The audit log is intact: ${plural(report.files, "file")}, ${plural(report.blocks, "block")}, ${plural(report.events, "event")}${report.unsealed ? `; ${plural(report.unsealed, "line")} not sealed yet` : ""}.`);
}

export function Audit() {
  const [filter, setFilter] = useState<Filter>({ plugin: "", event: "", since: "1h", whole: false });
  const [typed, setTyped] = useState(filter);
  const [open, setOpen] = useState<Event | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => setFilter(typed), 300);
    return () => clearTimeout(timer);
  }, [typed]);
  const events = useEvents(filter);
  return (
    <>
      <div class="head"><h1>Audit log</h1><div class="actions"><Act act={verify}>Verify the log</Act></div></div>
      <Card>
        <div class="filters">
          <Field label="Plugin">{(id) => <input id={id} value={typed.plugin} placeholder="any" onInput={(event) => setTyped({ ...typed, plugin: event.currentTarget.value })} />}</Field>
          <Field label="Event">{(id) => <input id={id} value={typed.event} placeholder="any; plugin.hook.* matches a prefix" onInput={(event) => setTyped({ ...typed, event: event.currentTarget.value })} />}</Field>
          <Field label="Since">
            {(id) => (
              <select id={id} value={typed.since} onChange={(event) => setTyped({ ...typed, since: event.currentTarget.value })}>
                {SINCE.map((one) => <option key={one} value={one}>{one === "" ? "the beginning" : `${one} ago`}</option>)}
              </select>
            )}
          </Field>
        </div>
        {events === undefined ? (
          <p class="faint">Loading…</p>
        ) : events.length === 0 ? (
          <Empty title="No events">Nothing in the log matches. New events appear here as they are written.</Empty>
        ) : (
          <>
            <div class="line">
              <span class="faint" role="status">{plural(events.length, "event")}{events.length >= KEPT ? ", the newest; a narrower filter shows older ones" : ""}</span>
              {!filter.whole && events.length >= FIRST && <Act kind="plain" act={() => setTyped({ ...typed, whole: true })}>Show older events too</Act>}
            </div>
            <Virtual
              class="log audit tall"
              label="Events"
              follow
              rows={events}
              height={ROW}
              render={(event) => (
                <button type="button" class="plain linebutton" aria-expanded={open?.id === event.id} onClick={() => setOpen(open?.id === event.id ? null : event)}>
                  <span class="faint">{clock(event.ts)}</span> <b>{harmless(event.event)}</b> {harmless(String(event.name ?? ""))} <span class="faint">{harmless(restOf(event)).slice(0, 300)}</span>
                </button>
              )}
            />
          </>
        )}
      </Card>
      {open && <Card title={harmless(open.event)} aside={<button type="button" class="plain" onClick={() => setOpen(null)}>Close</button>}><Json value={open} label="The event" /></Card>}
    </>
  );
}
