// A chat with an orchestrator, to try it: what is said, by whom, and what tools show ahead of it, as it comes.
import { useRef, useState } from "preact/hooks";
import { call, events, type Schemas, send } from "../api";
import { useAsk } from "../ask";
import { Markdown } from "../markdown";
import { Act, Badge, Card, Field, Json, Message, noteError, Said, Time } from "../ui";
import { count } from "../words";

type Part = { text: string } | { tool: string; data: unknown } | { agent: string } | { error: string };
interface Turn {
  said: string;
  parts: Part[];
  end: string; // what it took, when it is over
}
type Data = Record<string, unknown>;

function grown(turn: Turn, event: string, data: Data): Turn {
  const last = turn.parts.at(-1);
  const and = (part: Part): Turn => ({ ...turn, parts: [...turn.parts, part] });
  switch (event) {
    case "message":
      return last && "text" in last ? { ...turn, parts: [...turn.parts.slice(0, -1), { text: last.text + data.content }] } : and({ text: String(data.content) });
    case "tool":
      return and({ tool: String(data.tool), data: data.data });
    case "agent":
      return and({ agent: String(data.agent) });
    case "error":
      return and({ error: String(data.message) });
    case "metadata":
      return { ...turn, end: [data.stop === "stop" ? "" : data.stop, data.output_tokens ? `${count(Number(data.input_tokens))} tokens in, ${count(Number(data.output_tokens))} out` : ""].filter(Boolean).join(", ") };
    default:
      return turn;
  }
}

function Shown({ part }: { part: Part }) {
  if ("text" in part) return <Markdown text={part.text} />;
  if ("agent" in part) return <p class="faint"><Said text={part.agent} /> works on it.</p>;
  if ("error" in part) return <div class="problem" role="alert"><Said text={part.error} /></div>;
  return <details class="call" open><summary><code><Said text={part.tool} /></code></summary><Json value={part.data} label={`What ${part.tool} shows`} /></details>;
}

// -- earlier conversations ------------------------------------------------------------------------------

type Conversation = Schemas["ConversationList"]["conversations"][number];
const PAGE = 20;
const headersOf = (one: Schemas["Orchestrator"]) => ({ "x-org-id": one.org_id, "x-instance-id": one.instance_id });

// All that was said in it, as turns.
async function turnsOf(one: Schemas["Orchestrator"], conversation_id: string): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (let after = 0, more = true; more; ) {
    const part = await call("GET /api/chat/conversations/{conversation_id}/messages", { path: { conversation_id }, query: { after }, headers: headersOf(one) });
    for (const { role, content } of part.messages) {
      if (role === "user") turns.push({ said: content, parts: [], end: "" });
      else if (content !== "") (turns.at(-1) ?? turns[turns.push({ said: "", parts: [], end: "" }) - 1]).parts.push({ text: content });
    }
    more = part.more && part.last_seq > after;
    after = part.last_seq;
  }
  return turns;
}

interface EarlierProps {
  one: Schemas["Orchestrator"];
  now: string | null; // the one that is open
  round: number; // counts what was said here
  open: (id: string) => Promise<void>;
}
function Earlier({ one, now, round, open }: EarlierProps) {
  const [older, setOlder] = useState<Conversation[]>([]);
  const [ended, setEnded] = useState(false);
  const ask = (before?: string) => call("GET /api/chat/conversations", { query: { limit: PAGE, before }, headers: headersOf(one) });
  const asked = useAsk(() => ask(), [one.instance_id, round]);
  const first = asked.value?.conversations ?? [];
  const all = [...first, ...older.filter((each) => first.every((other) => other.conversation_id !== each.conversation_id))];
  const more = async () => {
    const part = await ask(all.at(-1)?.conversation_id);
    setOlder([...older, ...part.conversations]);
    setEnded(!part.more);
  };
  if (all.length === 0) return null;
  return (
    <details class="tool">
      <summary><strong>Earlier conversations</strong></summary>
      <ul class="waiting" aria-label="Earlier conversations">
        {all.map((each) => (
          <li key={each.conversation_id}>
            <button type="button" class="plain" aria-current={each.conversation_id === now || undefined} onClick={() => open(each.conversation_id).catch(noteError)}><Said text={each.title ?? "Without a title"} /> <span class="faint"><Time at={each.updated_at} /></span></button>
          </li>
        ))}
      </ul>
      {asked.value?.more && !ended && <div class="actions"><Act kind="plain" act={more}>Show older ones</Act></div>}
    </details>
  );
}

// -- the chat -----------------------------------------------------------------------------------------------

export function Chat({ one, again }: { one: Schemas["Orchestrator"]; again: () => void }) {
  const [turns, setTurns] = useState<Turn[]>([]);
  const [text, setText] = useState("");
  const [resource, setResource] = useState("");
  const [conversation, setConversation] = useState<string | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const change = (grow: (turn: Turn) => Turn) => setTurns((old) => [...old.slice(0, -1), grow(old.at(-1)!)]);
  const say = async () => {
    const said = text.trim();
    if (!said || running) return;
    const abort = new AbortController();
    setRunning(abort);
    setText("");
    setTurns((old) => [...old, { said, parts: [], end: "" }]);
    try {
      const body = { message: said, stream: true, conversation_id: conversation, resource_id: resource.trim() || null };
      const answer = await send("POST /api/chat/completion", { body, headers: headersOf(one), signal: abort.signal });
      for await (const { event, data } of events(answer)) {
        change((turn) => grown(turn, event, data));
        if (typeof data.session_id === "string") setConversation(data.session_id);
      }
    } catch (error) {
      noteError(error);
      change((turn) => ({ ...turn, end: abort.signal.aborted ? "stopped" : "failed" }));
    } finally {
      setRunning(null);
      again();
      box.current?.focus();
    }
  };
  const begin = () => {
    setTurns([]);
    setConversation(null);
  };
  const open = async (id: string) => {
    if (running) return;
    setTurns(await turnsOf(one, id));
    setConversation(id);
    box.current?.focus();
  };
  return (
    <Card title="Try it" aside={turns.length > 0 && !running && <Act kind="plain" act={begin}>New conversation</Act>}>
      <p class="faint">A conversation is a session of yours; other users do not see it.</p>
      <Earlier key={one.instance_id} one={one} now={conversation} round={running ? 0 : turns.length} open={open} />
      {one.mode === "grounded" && <Field label="Resource" help="What the conversation is about, by its id.">{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" value={resource} onInput={(event) => setResource(event.currentTarget.value)} />}</Field>}
      <div class="transcript" role="log" aria-label="The chat">
        {turns.map((turn, index) => [
          <article key={`${index}-said`} class="entry message user"><header><strong>You</strong></header><Markdown text={turn.said} /></article>,
          <article key={index} class="entry message assistant">
            <header><strong><Said text={one.name} /></strong> {running && index === turns.length - 1 ? <Badge word="running" /> : <span class="faint">{turn.end}</span>}</header>
            {turn.parts.map((part, at) => <Shown key={at} part={part} />)}
          </article>,
        ])}
      </div>
      <Message to={one.name} text={text} set={setText} say={say} stop={running ? () => running.abort() : undefined} box={box} />
    </Card>
  );
}
