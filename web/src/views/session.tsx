// One session: what was said, what the model of an agent sees of it, and how it goes on.
import type { ComponentChild } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, lines, may, type Schemas, send } from "../api";
import { useAsk } from "../ask";
import { Markdown } from "../markdown";
import { Act, askFirst, Badge, Card, Code, Json, Message, note, noteError, Said, Shown, Time } from "../ui";
import { count, harmless } from "../words";
import { askMove } from "./session-move";
import { ToolsByHand } from "./session-tools";
import { sessionEvents, titleOf } from "./sessions";

type Session = Schemas["AgentSession"];
type Entry = Schemas["SessionEntry"];
type Line = Record<string, unknown>;
const PAGE = 200;

async function allEntries(id: string): Promise<Entry[]> {
  const found: Entry[] = [];
  for (;;) {
    const { entries, more } = await call("GET /api/v1/sessions/{id}/entries", { path: { id }, query: { after: found.at(-1)?.seq ?? 0, limit: PAGE } });
    found.push(...entries);
    if (!more) return found;
  }
}

// -- what was said ------------------------------------------------------------------------------------

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map(textOf).join("\n");
  const text = (content as Line | null)?.text;
  return typeof text === "string" ? text : JSON.stringify(content);
}
const member = (content: unknown, key: string): unknown => (content as Line | null)?.[key];

function Call({ name, given, result, pending }: { name: string; given: unknown; result?: unknown; pending?: boolean }) {
  const error = member(result, "error");
  return (
    <details class={`call ${error !== undefined ? "failed" : ""}`}>
      <summary><code>{harmless(name)}</code> <span class="faint">{harmless(JSON.stringify(given) ?? "").slice(0, 90)}</span> {pending ? <Badge word="busy" /> : error !== undefined && <Badge word="failed" />}</summary>
      <h3>Arguments</h3>
      <Json value={given} />
      {result !== undefined && <><h3>{error !== undefined ? "Error" : "Result"}</h3><Json value={error ?? member(result, "result") ?? result} /></>}
    </details>
  );
}

function eventWords(content: unknown): string {
  switch (member(content, "event")) {
    case "started":
      return "The session started.";
    case "seat_moved":
      return `The seat moved from ${member(content, "from")} to ${member(content, "to")}.`;
    case "turn_failed":
      return `The turn failed: ${member(content, "message")}`;
    default:
      return JSON.stringify(content);
  }
}

interface EntryProps {
  entry: Entry;
  result?: Entry;
  all: Entry[];
}
const isTask = (entry: Entry): boolean => entry.kind === "message" && entry.role === "user" && entry.parent !== null;
const depthOf = (agent: string): number => agent.split(".subagents.").length - 1;
const speaker = (entry: Entry): string => (isTask(entry) ? `Task for ${entry.agent}` : entry.kind === "message" && entry.role === "user" ? "You" : entry.role === "system" ? "System" : entry.agent);
const SHOWN: Record<Entry["kind"], (props: EntryProps) => ComponentChild> = {
  message: ({ entry }) => <Markdown text={textOf(entry.content)} />,
  tool_call: ({ entry, result }) => <Call name={String(member(entry.content, "name") ?? "?")} given={member(entry.content, "arguments")} result={result?.content} />,
  tool_result: ({ entry }) => <Json value={entry.content} />,
  injection: ({ entry }) => <div class="injected"><div class="tag">added by {harmless(entry.plugin ?? "a plugin")}</div><Markdown text={textOf(entry.content)} /></div>,
  summary: ({ entry }) => <div class="injected"><div class="tag">summary{entry.plugin ? ` by ${harmless(entry.plugin)}` : ""}</div><Markdown text={textOf(entry.content)} /></div>,
  compaction: ({ entry, all }) => <Compaction entry={entry} all={all} />,
  checkpoint: () => <p class="faint">The context is too full: the session is stopped until you decide how to go on.</p>,
  undo: () => <p class="faint">The previous compaction was undone.</p>,
  event: ({ entry }) => <p class="faint"><Said text={eventWords(entry.content)} /></p>,
};

const brief = (entry: Entry): string => `${speaker(entry)}: ${textOf(entry.content)}`.slice(0, 240);

function Compaction({ entry, all }: { entry: Entry; all: Entry[] }) {
  const gone = all.filter((one) => one.seq < entry.seq && one.agent === entry.agent && one.superseded);
  const made = all.filter((one) => one.parent === entry.id);
  return (
    <details class="call">
      <summary>The context of <Said text={entry.agent} /> was compacted by {harmless(String(member(entry.content, "strategy") ?? "?"))}: {count(Number(member(entry.content, "tokens_before") ?? 0))} → {count(Number(member(entry.content, "tokens_after") ?? 0))} tokens</summary>
      <div class="sides">
        <div><h3>Before: what no model sees any longer ({count(gone.length)})</h3>{gone.length ? <ul class="lines">{gone.map((one) => <li key={one.id}>{harmless(brief(one))}</li>)}</ul> : <p class="faint">Nothing.</p>}</div>
        <div><h3>After: what stands for it ({count(made.length)})</h3>{made.length ? made.map((one) => <Markdown key={one.id} text={textOf(one.content)} />) : <p class="faint">Nothing: the oldest entries were dropped.</p>}</div>
      </div>
    </details>
  );
}

function Turned({ props, session, again, follows }: { props: EntryProps; session: Session; again: () => void; follows: boolean }) {
  const { entry } = props;
  const path = { id: session.id };
  const [open, setOpen] = useState(false); // where there is no room for them, and no pointer to hover
  const pinnable = entry.kind === "message" || entry.kind === "injection" || entry.kind === "summary" || entry.kind === "tool_result";
  return (
    <article class={`entry ${entry.kind} ${entry.role} ${entry.superseded ? "superseded" : ""} ${follows ? "follows" : ""} ${open ? "open" : ""}`} style={{ marginInlineStart: `${depthOf(entry.agent) * 1.5}rem` }}>
      <header>
        <strong><Said text={speaker(entry)} /></strong>
        <span class="faint"><Time at={entry.created_at} />{entry.tokens > 0 && `, ${count(entry.tokens)} tokens`}</span>
        {entry.pinned && <span class="tag">pinned</span>}
        {entry.superseded && <span class="tag">not shown to models</span>}
        {may("sessions:write") && <button type="button" class="plain more" aria-label="Actions for this entry" aria-expanded={open} onClick={() => setOpen(!open)}>⋯</button>}
        {may("sessions:write") && (
          <span class="tools">
            {pinnable && <Act kind="plain" act={() => call("POST /api/v1/sessions/{id}/pin", { path, body: { entry: entry.id, pinned: !entry.pinned } }).then(again)}>{entry.pinned ? "Unpin" : "Pin"}</Act>}
            <Act
              kind="plain"
              act={async () => {
                const made = await call("POST /api/v1/sessions/{id}/fork", { path, body: { entry: entry.id } });
                note("done", "This is the fork: it has everything up to here.");
                location.hash = `#/sessions/${made.id}`;
              }}
            >
              Fork here
            </Act>
            {entry !== props.all.at(-1) && <Act kind="plain" act={() => askMove(session.id, { act: "rewind", entry: entry.id }, again)}>Go back to here…</Act>}
          </span>
        )}
      </header>
      {SHOWN[entry.kind](props)}
    </article>
  );
}

function Transcript({ entries, session, again }: { entries: Entry[]; session: Session; again: () => void }) {
  const [older, setOlder] = useState(false);
  const results = new Map(entries.filter((one) => one.kind === "tool_result" && one.parent).map((one) => [one.parent!, one]));
  const calls = new Set(entries.filter((one) => one.kind === "tool_call").map((one) => one.id));
  const rows = entries.filter((one) => !(one.kind === "tool_result" && one.parent && calls.has(one.parent)));
  const shown = older ? rows : rows.slice(-150);
  return (
    <div class="transcript" role="log" aria-label="What was said">
      {shown.length < rows.length && <div><Act act={() => setOlder(true)}>{`Show ${count(rows.length - shown.length)} earlier`}</Act></div>}
      {shown.map((entry, index) => (
        <Turned key={entry.id} props={{ entry, all: entries, result: results.get(entry.id) }} session={session} again={again} follows={index > 0 && speaker(entry) === speaker(shown[index - 1]) && entry.role !== "user"} />
      ))}
    </div>
  );
}

// -- a turn, as it runs -------------------------------------------------------------------------------

interface Turn {
  said: string;
  parts: ({ text: string } | { call: string; tool: string; given: unknown; result?: unknown } | { remark: string })[];
}
function grown(turn: Turn, line: Line): Turn {
  const parts = [...turn.parts];
  const last = parts.at(-1);
  switch (line.type) {
    case "text":
      if (last && "text" in last) parts[parts.length - 1] = { text: last.text + line.text };
      else parts.push({ text: String(line.text) });
      break;
    case "tool_call":
      parts.push({ call: String(line.call), tool: String(line.tool), given: line.arguments });
      break;
    case "tool_result":
      return { ...turn, parts: parts.map((part) => ("call" in part && part.call === line.call ? { ...part, result: line.is_error || line.blocked ? { error: line.result } : { result: line.result } } : part)) };
    case "retry":
      parts.push({ remark: `${line.message}; tried again in ${Math.round(Number(line.after_ms) / 1000)} s` });
      break;
    case "said":
      parts.push({ remark: `${line.plugin} says: ${line.text}` });
      break;
    case "window":
      parts.push({ remark: `The context has about ${count(Number(line.tokens))} tokens, and the model takes ${count(Number(line.window_tokens))}.` });
      break;
    case "compaction":
      parts.push({ remark: "The context was compacted." });
      break;
    case "subagent": {
      const event = line.event as Line;
      const name = String(line.agent).split(".").at(-1);
      if (event.type === "start") parts.push({ remark: `${name} begins.` });
      if (event.type === "tool_call") parts.push({ call: String(event.call), tool: `${name}: ${event.tool}`, given: event.arguments });
      if (event.type === "tool_result") return grown(turn, event);
      if (event.type === "end") parts.push({ remark: `${name} ends.` });
    }
  }
  return { ...turn, parts };
}

function Running({ turn }: { turn: Turn }) {
  return (
    <div class="transcript" aria-live="polite" aria-label="The running turn">
      <article class="entry message user"><header><strong>You</strong></header><Markdown text={turn.said} /></article>
      <article class="entry message assistant">
        <header><Badge word="running" /></header>
        {turn.parts.map((part, index) =>
          "text" in part ? <Markdown key={index} text={part.text} /> : "call" in part ? <Call key={index} name={part.tool} given={part.given} result={part.result} pending={part.result === undefined} /> : <p key={index} class="faint"><Said text={part.remark} /></p>,
        )}
      </article>
    </div>
  );
}

// -- commands of scripts --------------------------------------------------------------------------------

type Command = Schemas["SessionCommands"]["commands"][number];
interface Told {
  said: string;
  lines: { text: string; error: boolean }[];
}
const commandOf = (commands: Command[], text: string): Command | undefined => {
  const name = /^\/(\S+)/.exec(text)?.[1];
  return name === undefined ? undefined : commands.find((one) => one.name === name || one.aliases.includes(name));
};

async function runCommand(session: Session, command: Command, said: string, tell: (told: Told) => void): Promise<void> {
  const told: Told = { said, lines: [] };
  const args = said.replace(/^\/\S+\s?/, "");
  tell({ ...told });
  for await (const line of lines(await send("POST /api/v1/sessions/{id}/commands/{name}", { path: { id: session.id, name: command.name }, body: { args } }))) {
    if (typeof line.text === "string" && line.text !== "") told.lines.push({ text: line.text, error: line.is_error === true });
    tell({ ...told, lines: [...told.lines] });
  }
}

// What a command said; it is nobody's message, so it is not in the transcript.
function Answered({ told, close }: { told: Told; close: () => void }) {
  return (
    <div class="injected answered" role="status">
      <div class="line"><code><Said text={told.said} /></code><Act kind="plain" label="Hide the command's output" act={close}>✕</Act></div>
      {told.lines.map((line, index) => (line.error ? <div key={index} class="problem"><Said text={line.text} /></div> : <Markdown key={index} text={line.text} />))}
    </div>
  );
}

function Suggestions({ commands, text, take }: { commands: Command[]; text: string; take: (text: string) => void }) {
  const begun = /^\/(\S*)$/.exec(text)?.[1];
  const fitting = begun === undefined ? [] : commands.filter((one) => [one.name, ...one.aliases].some((name) => name.startsWith(begun)));
  if (fitting.length === 0) return null;
  return (
    <ul class="suggestions" aria-label="Commands">
      {fitting.map((one) => (
        <li key={one.name}><button type="button" class="plain" onClick={() => take(`/${one.name} `)}><code>/{harmless(one.name)}</code> <span class="faint"><Said text={one.description} /> (<Said text={one.plugin} />)</span></button></li>
      ))}
    </ul>
  );
}

function Composer({ session, again, setTurn }: { session: Session; again: () => void; setTurn: (change: (old: Turn | null) => Turn | null) => void }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [told, setTold] = useState<Told | null>(null);
  const asked = useAsk(() => call("GET /api/v1/sessions/{id}/commands", { path: { id: session.id } }), [session.id, session.state]);
  const commands = asked.value?.commands ?? [];
  const box = useRef<HTMLTextAreaElement>(null);
  const say = async () => {
    const said = text.trim();
    if (!said || busy) return;
    const command = commandOf(commands, said);
    setBusy(true);
    setText("");
    setTold(null);
    if (!command) setTurn(() => ({ said, parts: [] }));
    try {
      if (command) await runCommand(session, command, said, setTold);
      else for await (const line of lines(await send("POST /api/v1/sessions/{id}/runs", { path: { id: session.id }, body: { text: said } }))) {
        setTurn((old) => old && grown(old, line));
        const error = line.error as { message: string; hint?: string } | null | undefined;
        if (line.type === "end" && error) note("failed", error.message, error.hint);
      }
    } catch (error) {
      noteError(error);
      setText(said);
    } finally {
      setBusy(false);
      again();
      setTurn(() => null);
      box.current?.focus();
    }
  };
  const running = busy || session.running;
  const take = (words: string) => {
    setText(words);
    box.current?.focus();
  };
  return (
    <>
    {told && <Answered told={told} close={() => setTold(null)} />}
    <Message
      to={session.seat}
      text={text}
      set={setText}
      say={say}
      stop={running ? () => call("POST /api/v1/sessions/{id}/cancel", { path: { id: session.id } }) : undefined}
      box={box}
      hint={commands.length > 0 ? " / lists commands." : ""}
    >
      <Suggestions commands={commands} text={text} take={take} />
    </Message>
    </>
  );
}

// -- its contexts ---------------------------------------------------------------------------------------

function Meters({ session }: { session: Session }) {
  return (
    <div class="meters">
      {session.agents.map((agent) => {
        const part = agent.window_tokens ? agent.tokens / agent.window_tokens : 0;
        const words = agent.window_tokens ? `${count(agent.tokens)} of ${count(agent.window_tokens)} tokens, ${Math.round(part * 100)} %` : `${count(agent.tokens)} tokens`;
        return (
          <div key={agent.path} class="meter">
            <div class="line"><span><Said text={agent.path} /></span> <span class="faint">{words}{agent.threshold !== null && `; compacted at ${Math.round(agent.threshold * 100)} %`}</span></div>
            <meter min={0} max={1} high={agent.threshold ?? 0.9} optimum={0} value={Math.min(part, 1)} aria-label={`The context of ${agent.path}: ${words}`} />
          </div>
        );
      })}
    </div>
  );
}

function Contents({ id }: { id: string }) {
  const asked = useAsk(() => call("GET /api/v1/sessions/{id}/context", { path: { id } }), [id], { on: sessionEvents });
  return (
    <Shown asked={asked}>
      {(context) => (
        <>
          {context.system && <><h3>System</h3><Code text={context.system} /></>}
          <h3>Messages</h3>
          <Json value={context.messages} label="What the model would get" />
        </>
      )}
    </Shown>
  );
}

function Actions({ session, again }: { session: Session; again: () => void }) {
  const path = { id: session.id };
  if (!may("sessions:write")) return null;
  return (
    <div class="actions">
      {session.state !== "active" && <Act act={() => call("POST /api/v1/sessions/{id}/resume", { path, body: {} }).then(again)}>Resume</Act>}
      <Act act={() => askMove(session.id, { act: "undo" }, again)}>Undo…</Act>
      <Act act={() => askMove(session.id, { act: "redo" }, again)}>Redo…</Act>
      <Act
        act={async () => {
          const done = await call("POST /api/v1/sessions/{id}/compact", { path, body: {} });
          note("done", `${count(done.tokens_before)} → ${count(done.tokens_after)} tokens, by ${done.strategy}.`, done.fell_back ?? "");
          again();
        }}
      >
        Compact
      </Act>
      <Act
        act={async () => {
          await call("POST /api/v1/sessions/{id}/undo-compact", { path, body: {} });
          note("done", "The latest compaction was undone.");
          again();
        }}
      >
        Undo the compaction
      </Act>
      {session.state !== "closed" && (
        <Act kind="plain" act={() => askFirst({ title: "Close this session?", yes: "Close", text: <p>What was said stays, and it can be resumed.</p>, act: () => call("DELETE /api/v1/sessions/{id}", { path }).then(again) })}>Close…</Act>
      )}
    </div>
  );
}

function Toggle({ on, set, children }: { on: boolean; set: (on: boolean) => void; children: string }) {
  return <button type="button" class="plain" aria-expanded={on} onClick={() => set(!on)}>{on ? `Hide: ${children.toLowerCase()}` : children}</button>;
}

export function SessionView({ id }: { id: string }) {
  const [turn, setTurn] = useState<Turn | null>(null);
  const end = useRef<HTMLDivElement>(null);
  const asked = useAsk(async () => {
    const [session, entries] = await Promise.all([call("GET /api/v1/sessions/{id}", { path: { id } }), allEntries(id)]);
    return { session, entries };
  }, [id], { on: (one) => sessionEvents(one) && (one.session_id === id || one.type === "missed") });
  const [context, setContext] = useState(false);
  const [tools, setTools] = useState(false);
  const size = (asked.value?.entries.length ?? 0) + (turn?.parts.length ?? 0);
  useEffect(() => {
    const near = window.innerHeight + window.scrollY > document.body.scrollHeight - 500;
    if (near) end.current?.scrollIntoView({ block: "end" });
  }, [size]);
  return (
    <>
      <p class="crumb"><a href="#/sessions">Sessions</a> /</p>
      <Shown asked={asked}>
        {({ session, entries }) => (
          <>
            <div class="head">
              <div>
                <h1><Said text={titleOf(session)} /> <Badge word={session.running ? "running" : session.state} /></h1>
                <p class="faint"><a href={`#/projects/${encodeURIComponent(session.project_id)}`}><Said text={session.project_id} /></a>, with <Said text={session.seat} />, in <code><Said text={session.workdir} /></code>{session.parent && <>; a fork of <a href={`#/sessions/${session.parent}`}>another</a></>}</p>
              </div>
              <Actions session={session} again={asked.again} />
            </div>
            <Card title="Context" aside={<><Toggle on={context} set={setContext}>What the model sees</Toggle>{may("sessions:write") && session.state === "active" && <Toggle on={tools} set={setTools}>Tools by hand</Toggle>}</>}>
              <Meters session={session} />
              {context && <Contents id={id} />}
              {tools && <ToolsByHand session={session} again={asked.again} />}
            </Card>
            <Transcript entries={entries} session={session} again={asked.again} />
            {turn && <Running turn={turn} />}
            {may("sessions:write") && session.state !== "closed" && <Composer session={session} again={asked.again} setTurn={setTurn} />}
            <div ref={end} />
          </>
        )}
      </Shown>
    </>
  );
}
