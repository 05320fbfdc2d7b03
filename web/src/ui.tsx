// The parts that views are made of. A text of a plugin is always a text node.
import { signal } from "@preact/signals";
import type { ComponentChildren, RefObject, TargetedEvent } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";
import type { Asked } from "./ask";
import { ago, clock, harmless, pretty } from "./words";

type Children = { children?: ComponentChildren };

// -- words that stand for a moment ----------------------------------------------------------------

interface Note {
  id: number;
  kind: "done" | "failed";
  text: string;
  hint: string;
}
const notes = signal<Note[]>([]);
let noteId = 0;

function drop(id: number): void {
  notes.value = notes.value.filter((note) => note.id !== id);
}
export function note(kind: Note["kind"], text: string, hint = ""): void {
  const id = ++noteId;
  notes.value = [...notes.value.slice(-3), { id, kind, text, hint }];
  if (kind === "done") setTimeout(() => drop(id), 5000);
}
export function noteError(error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  note("failed", error instanceof Error ? error.message : String(error), error instanceof ApiError ? error.hint : "");
}
export function Notes() {
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.value.map((one) => (
        <div key={one.id} class={`note ${one.kind}`}>
          <div>
            {harmless(one.text)}
            {one.hint && <div class="hint">{harmless(one.hint)}</div>}
          </div>
          <button class="plain" aria-label="Dismiss" onClick={() => drop(one.id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}

// -- buttons ----------------------------------------------------------------------------------------

interface ActProps extends Children {
  act: () => Promise<unknown> | unknown;
  kind?: "primary" | "danger" | "plain";
  done?: string; // said when it worked
  disabled?: boolean;
  label?: string;
  submits?: boolean; // its form's Enter, too
}
// Does something once at a time, and says it if that fails.
export function Act({ act, kind, done, disabled, label, submits, children }: ActProps) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await act();
      if (done) note("done", done);
    } catch (error) {
      noteError(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type={submits ? "submit" : "button"} class={kind} disabled={disabled || busy} aria-busy={busy} aria-label={label} onClick={run}>
      {children}
    </button>
  );
}

const STEADY_MS = 800;
// For what must not happen by accident: it takes a moment after it was shown, and no held key.
export function Deliberate({ act, kind = "primary", disabled, children }: ActProps) {
  const [steady, setSteady] = useState(false);
  const held = useRef(false);
  useEffect(() => {
    const timer = setTimeout(() => setSteady(true), STEADY_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <span
      onKeyDownCapture={(event) => {
        held.current = event.repeat;
        if (event.repeat) event.preventDefault();
      }}
    >
      <Act kind={kind} disabled={disabled || !steady} act={() => (held.current ? undefined : act())}>
        {children}
      </Act>
    </span>
  );
}

// -- dialogs ----------------------------------------------------------------------------------------

interface Question {
  title: string;
  text: ComponentChildren;
  yes: string;
  danger?: boolean;
  act: () => Promise<unknown> | unknown;
}
const question = signal<Question | null>(null);
export const askFirst = (asked: Question): void => {
  question.value = asked;
};
export function Dialogs() {
  const asked = question.value;
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useLayoutEffect(() => {
    if (asked) dialog.current?.showModal();
  }, [asked]);
  if (!asked) return null;
  const close = () => {
    question.value = null;
  };
  return (
    <dialog ref={dialog} aria-labelledby={title} onClose={close}>
      <h2 id={title}>{asked.title}</h2>
      <div class="stack">{asked.text}</div>
      <div class="actions end">
        <button type="button" autofocus onClick={close}>
          Cancel
        </button>
        <Deliberate
          kind={asked.danger ? "danger" : "primary"}
          act={async () => {
            await asked.act();
            close();
          }}
        >
          {asked.yes}
        </Deliberate>
      </div>
    </dialog>
  );
}

// -- small things -----------------------------------------------------------------------------------

export function Time({ at }: { at: string | null | undefined }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((old) => old + 1), 15_000);
    return () => clearInterval(timer);
  }, []);
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={at} title={clock(at)}>
      {ago(at)}
    </time>
  );
}

const TONES: Record<string, string> = {
  running: "good", installed: "good", ok: "good", active: "good", enabled: "good", ready: "good", done: "good", approved: "good", live: "good",
  spawning: "busy", stopping: "busy", fetching: "busy", installing: "busy", connecting: "busy",
  degraded: "wait", stale: "wait", wanted: "wait", offered: "wait", pending: "wait", changed: "wait", new: "wait",
  crashed: "bad", missing: "bad", failed: "bad", lost: "bad", not_installed: "bad", wrong_version: "bad", refused: "bad", misconfigured: "bad",
};
export function Badge({ word }: { word: string }) {
  return <span class={`badge ${TONES[word] ?? "rest"}`}>{word.replace("_", " ")}</span>;
}

// A text that somebody else wrote.
export function Said({ text, class: kind }: { text: string | null | undefined; class?: string }) {
  return text ? <span class={kind}>{harmless(text)}</span> : null;
}
export function Code({ text, label }: { text: string; label?: string }) {
  return (
    <pre tabIndex={0} aria-label={label}>
      {harmless(text)}
    </pre>
  );
}
export const Json = ({ value, label }: { value: unknown; label?: string }) => <Code text={pretty(value)} label={label} />;

export function Card({ title, aside, children, id }: Children & { title?: ComponentChildren; aside?: ComponentChildren; id?: string }) {
  return (
    <section class="card" id={id}>
      {(title || aside) && (
        <header>
          <h2>{title}</h2>
          {aside && <div class="aside">{aside}</div>}
        </header>
      )}
      {children}
    </section>
  );
}
export function Empty({ title, children }: Children & { title: string }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      <div>{children}</div>
    </div>
  );
}
export function Problem({ error }: { error: Error }) {
  const told = error instanceof ApiError ? error : null;
  return (
    <div class="problem" role="alert">
      <strong>{harmless(error.message)}</strong>
      {told?.hint && <div>{harmless(told.hint)}</div>}
      {told?.problems.map((one) => (
        <div key={`${one.line}:${one.column}:${one.message}`}>
          {one.line > 0 && <code>{`${one.line}:${one.column}`}</code>} {harmless(one.message)}
        </div>
      ))}
    </div>
  );
}
// What was asked for, once it is there; until then that it is not, or why.
export function Shown<T>({ asked, children }: { asked: Asked<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {asked.error && <Problem error={asked.error} />}
      {asked.value !== undefined ? children(asked.value) : !asked.error && <p class="faint">Loading…</p>}
    </>
  );
}
export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name} class={typeof value === "string" && value.length > 90 ? "whole" : undefined}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
export function Figure({ name, value, more }: { name: string; value: ComponentChildren; more?: ComponentChildren }) {
  return (
    <div class="figure">
      <div class="name">{name}</div>
      <div class="value">{value}</div>
      {more && <div class="more">{more}</div>}
    </div>
  );
}
export function Field({ label, help, problem, children }: { label: string; help?: ComponentChildren; problem?: string | null; children: (id: string, described: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id, `${id}-help`)}
      <div id={`${id}-help`} class={problem ? "help wrong" : "help"}>
        {problem || help}
      </div>
    </div>
  );
}
export function Tabs({ tabs, chosen, base }: { tabs: { key: string; name: ComponentChildren }[]; chosen: string; base: string }) {
  return (
    <nav class="tabs" aria-label="Parts">
      {tabs.map((tab) => (
        <a key={tab.key} href={`${base}/${tab.key}`} aria-current={tab.key === chosen ? "page" : undefined}>
          {tab.name}
        </a>
      ))}
    </nav>
  );
}
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <Act kind="plain" label={`Copy: ${text}`} act={() => navigator.clipboard.writeText(text)} done="Copied.">
        Copy
      </Act>
    </div>
  );
}

// -- files and messages ---------------------------------------------------------------------------------

interface DropProps {
  label: string; // of the chooser
  accept: string;
  kinds: string; // the same in words
  take: (file: File, tell: (words: string) => void) => Promise<void>;
}
// Takes a file that is dropped or chosen, one at a time.
export function Drop({ label, accept, kinds, take }: DropProps) {
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState("");
  const chooser = useRef<HTMLInputElement>(null);
  const begin = async (file: File | undefined) => {
    if (!file || busy) return;
    try {
      await take(file, (words) => setBusy(`${file.name}${words}`));
    } catch (error) {
      noteError(error);
    } finally {
      setBusy("");
    }
  };
  const onDrop = (event: TargetedEvent<HTMLDivElement, DragEvent>) => {
    event.preventDefault();
    setOver(false);
    void begin(event.dataTransfer?.files[0]);
  };
  const onOver = (event: TargetedEvent<HTMLDivElement, DragEvent>) => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <div class={over ? "drop over" : "drop"} onDragOver={onOver} onDragLeave={() => setOver(false)} onDrop={onDrop}>
      <input ref={chooser} type="file" class="hidden" tabIndex={-1} aria-label={label} accept={accept} onChange={(event) => { void begin(event.currentTarget.files?.[0]); event.currentTarget.value = ""; }} />
      {busy ? <span role="status"><Said text={busy} /></span> : <><strong>Drop a file here</strong><span class="faint">{kinds}</span><button type="button" onClick={() => chooser.current?.click()}>Choose a file…</button></>}
    </div>
  );
}

interface MessageProps extends Children {
  to: string;
  text: string;
  set: (text: string) => void;
  say: () => Promise<void>;
  stop?: () => unknown; // while it is answered
  box: RefObject<HTMLTextAreaElement | null>;
  hint?: string;
}
export function Message({ to, text, set, say, stop, box, hint = "", children }: MessageProps) {
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); void say(); }}>
      {children}
      <textarea
        ref={box}
        rows={3}
        aria-label={`Message to ${to}`}
        placeholder={`Message ${to}. Enter sends, Shift+Enter starts a new line.${hint}`}
        value={text}
        onInput={(event) => set(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void say();
        }}
      />
      <div class="actions">{stop ? <Act kind="danger" act={stop}>Stop</Act> : <button class="primary" disabled={!text.trim()}>Send</button>}</div>
    </form>
  );
}

// -- long lists: only what is seen is there -----------------------------------------------------------

interface VirtualProps<T> {
  rows: T[];
  height: number; // of a row, in px
  render: (row: T, index: number) => ComponentChildren;
  label: string;
  class?: string;
  follow?: boolean; // stays at the end while more comes
}
export function Virtual<T>({ rows, height, render, label, class: kind = "", follow }: VirtualProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [seen, setSeen] = useState(600);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(() => setSeen(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (follow && atEnd.current) box.current!.scrollTop = rows.length * height;
  }, [rows.length, follow]);
  const onScroll = (event: TargetedEvent<HTMLDivElement>) => {
    const element = event.currentTarget;
    atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 2 * height;
    setTop(element.scrollTop);
  };
  const first = Math.max(0, Math.floor(top / height) - 8);
  const last = Math.min(rows.length, Math.ceil((top + seen) / height) + 8);
  return (
    <div ref={box} class={`virtual ${kind}`} tabIndex={0} role="list" aria-label={`${label}, ${rows.length} in all`} onScroll={onScroll}>
      <div class="all" role="presentation" style={{ height: `${rows.length * height}px` }}>
        {rows.slice(first, last).map((row, index) => (
          <div
            key={first + index}
            class="row"
            role="listitem"
            aria-setsize={rows.length}
            aria-posinset={first + index + 1}
            style={{ transform: `translateY(${(first + index) * height}px)`, height: `${height}px` }}
          >
            {render(row, first + index)}
          </div>
        ))}
      </div>
    </div>
  );
}
