// The sessions: all of them, and one to read and go on with.
import { useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, Badge, Card, Empty, Field, Said, Shown, Time } from "../ui";
import { harmless, plural } from "../words";

type Session = Schemas["AgentSession"];
const PAGE = 100;
export const sessionEvents = (one: { type: string; event?: string }) => one.type === "audit" && /^(session|compaction)\./.test(one.event ?? "");
export const titleOf = (session: Session): string => session.title ?? "No messages yet";

function Begin() {
  const asked = useAsk(() => call("GET /api/v1/projects"), []);
  const [chosen, setChosen] = useState("");
  if (!may("sessions:write")) return null;
  return (
    <Shown asked={asked}>
      {({ projects }) => {
        const ready = projects.filter((one) => one.state === "active");
        if (ready.length === 0) return <Card><Empty title="No project is loaded">A session is a conversation with an agent of a project. <a href="#/projects">Load a project</a></Empty></Card>;
        const id = chosen || ready[0].id;
        return (
          <Card title="Start a session">
            <div class="line">
              <Field label="Project">{(field) => <select id={field} value={id} onChange={(event) => setChosen(event.currentTarget.value)}>{ready.map((one) => <option key={one.id} value={one.id}>{harmless(one.id)}</option>)}</select>}</Field>
              <Act
                kind="primary"
                act={async () => {
                  const made = await call("POST /api/v1/projects/{id}/sessions", { path: { id }, body: {} });
                  location.hash = `#/sessions/${made.id}`;
                }}
              >
                Start
              </Act>
            </div>
          </Card>
        );
      }}
    </Shown>
  );
}

export function Sessions() {
  const [pages, setPages] = useState(1);
  const asked = useAsk(async () => {
    const found: Session[] = [];
    let more = true;
    for (let page = 0; more && page < pages; page++) {
      const answer = await call("GET /api/v1/sessions", { query: { limit: PAGE, before: found.at(-1)?.id } });
      found.push(...answer.sessions);
      more = answer.more;
    }
    return { found, more };
  }, [pages], { on: sessionEvents });
  return (
    <>
      <h1>Sessions</h1>
      <Begin />
      <Shown asked={asked}>
        {({ found, more }) => found.length === 0 ? <></> : (
          <Card title="Sessions, newest first">
            <ul class="waiting">
              {found.map((one) => (
                <li key={one.id}>
                  <a href={`#/sessions/${one.id}`}>
                    <span class="what"><strong class={one.title ? "" : "faint"}><Said text={titleOf(one)} /></strong><span class="faint block"><Said text={one.project_id} />, with <Said text={one.seat} />; {plural(one.entries, "entry", "entries")}{one.parent && ", a fork"}</span></span>
                    <span class="faint"><Time at={one.updated_at} /></span>
                    {one.running ? <Badge word="running" /> : <Badge word={one.state} />}
                  </a>
                </li>
              ))}
            </ul>
            {more && <div><Act act={() => setPages(pages + 1)}>Show older sessions</Act></div>}
          </Card>
        )}
      </Shown>
    </>
  );
}
