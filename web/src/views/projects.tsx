// Projects: which agents there are, what each has, and from where every value comes.
import { useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, askFirst, Badge, Card, Code, Empty, Facts, Field, note, Said, Shown, Tabs, Time } from "../ui";
import { harmless, plural, pretty } from "../words";
import { Knobs } from "./knobs";

type Project = Schemas["Project"];
type Agent = Schemas["Agent"];
const projectEvents = (one: { type: string; event?: string }) => one.type === "audit" && /^(project|consent)\.|knob_write/.test(one.event ?? "");

// -- all of them ------------------------------------------------------------------------------------

function Load({ again }: { again: () => void }) {
  const [path, setPath] = useState("");
  const [watch, setWatch] = useState(true);
  if (!may("projects:write")) return null;
  return (
    <Card title="Load a project">
      <Field label="Folder" help="Absolute: the project's root, its .kaged, or the file; or a folder without one, which has all plugins that are enabled for every project.">
        {(id, described) => <input id={id} aria-describedby={described} class="mono" placeholder="/home/me/project" spellcheck={false} value={path} onInput={(event) => setPath(event.currentTarget.value)} />}
      </Field>
      <label class="check"><input type="checkbox" checked={watch} onChange={(event) => setWatch(event.currentTarget.checked)} /> Reload it when its file changes</label>
      <div class="actions">
        <Act
          kind="primary"
          disabled={!path.trim()}
          act={async () => {
            const project = await call("POST /api/v1/projects", { body: { path: path.trim(), watch } });
            again();
            location.hash = `#/projects/${encodeURIComponent(project.id)}`;
          }}
        >
          Load
        </Act>
      </div>
    </Card>
  );
}

export function Projects() {
  const asked = useAsk(() => call("GET /api/v1/projects"), [], { on: projectEvents });
  return (
    <>
      <h1>Projects</h1>
      <Shown asked={asked}>
        {({ projects }) => (
          <Card title={projects.length ? plural(projects.length, "project") : undefined}>
            {projects.length === 0 ? (
              <Empty title="No project is loaded">A project declares its agents and the plugins of each, in <code>.kaged/project.yaml</code>. Load one below, or create one: <code>kaged project init</code></Empty>
            ) : (
              <ul class="waiting">
                {projects.map((one) => (
                  <li key={one.id}>
                    <a href={`#/projects/${encodeURIComponent(one.id)}`}>
                      <span class="what"><strong><Said text={one.id} /></strong> <span class="faint block"><Said text={one.reason ?? one.root} /></span></span>
                      <span class="faint">{plural(one.agents, "agent")}, {plural(one.plugins, "plugin")}, {plural(one.sessions, "session")}</span>
                      <Badge word={one.state} />
                    </a>
                  </li>
                ))}
              </ul>
            )}
          </Card>
        )}
      </Shown>
      <Load again={asked.again} />
    </>
  );
}

// -- one agent ----------------------------------------------------------------------------------------

const ORIGINS: Record<Schemas["Origin"], string> = { schema: "default", operator: "local.toml", primary: "primary", agent: "this agent" };

function AgentPlugin({ plugin }: { plugin: Schemas["AgentPlugin"] }) {
  return (
    <details class="tool">
      <summary>
        <strong><Said text={plugin.name} /></strong> <Said class="faint" text={plugin.installed} /> <Badge word={plugin.state} />
        {plugin.reason && <span class="words"><Said text={plugin.reason} /></span>}
      </summary>
      <Facts
        rows={[
          ["Package", <Said text={plugin.package} />],
          ["Wanted", plugin.version ?? "any version"],
          ["Process", plugin.isolation === "agent" ? "one for this agent" : "one for the project"],
          ["Hooks", plugin.hooks.join(", ") || "none"],
          ["Roles", plugin.roles.join(", ") || "none"],
          ["Secrets", plugin.secrets.length ? plugin.secrets.map((one) => `${one.key} (${one.set ? "set" : one.required ? "missing" : "not set"})`).join(", ") : "none"],
        ]}
      />
      {plugin.config.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Settings">
          <table>
            <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
            <tbody>{plugin.config.map((one) => <tr key={one.key}><td><code><Said text={one.key} /></code></td><td>{one.sensitive ? <span class="faint">hidden</span> : <code>{harmless(pretty(one.value))}</code>}</td><td class="faint">{ORIGINS[one.origin]}</td></tr>)}</tbody>
          </table>
        </div>
      )}
      {plugin.plugin && <p><a href={`#/plugins/${encodeURIComponent(plugin.plugin)}`}>Its view</a></p>}
    </details>
  );
}

// As `kaged project add`: the project's file is changed, and read again.
function AddPlugin({ project, agent, again }: { project: Project; agent: Agent; again: () => void }) {
  const [plugin, setPlugin] = useState("");
  const asked = useAsk(async () => (may("plugins:read") ? (await call("GET /api/v1/plugins")).plugins : []), [project.id]);
  const has = new Set(agent.plugins.flatMap((one) => [one.plugin, one.package]));
  const others = [...new Set((asked.value ?? []).map((one) => one.name.split("@")[0]))].filter((name) => !has.has(name));
  const add = async () => {
    await call("POST /api/v1/projects/{id}/agents/{path}/plugins", { path: { id: project.id, path: agent.path }, body: { plugin: plugin.trim() } });
    note("done", `${agent.path} has ${plugin.trim()} now; it is in the project's file.`);
    setPlugin("");
    again();
  };
  return (
    <details>
      <summary>Add a plugin</summary>
      <form class="stack" onSubmit={(event) => event.preventDefault()}>
        <Field label="Plugin" help="The name of an installed plugin, or a package: the project waits for one that is not installed yet. It is written to the project's file.">
          {(id, described) => (
            <>
              <input id={id} aria-describedby={described} list={`${id}-names`} autocomplete="off" spellcheck={false} value={plugin} onInput={(event) => setPlugin(event.currentTarget.value)} />
              <datalist id={`${id}-names`}>{others.map((one) => <option key={one} value={harmless(one)} />)}</datalist>
            </>
          )}
        </Field>
        <div class="actions"><Act submits kind="primary" disabled={!plugin.trim()} label={`Add to ${agent.path}`} act={add}>Add</Act></div>
      </form>
    </details>
  );
}

function AgentCard({ project, agent, again }: { project: Project; agent: Agent; again: () => void }) {
  const off = agent.tools.filter((one) => !one.enabled).length;
  return (
    <Card title={<code><Said text={agent.path} /></code>} aside={<span class="faint"><Said text={agent.model ?? "no model"} /></span>}>
      {agent.prompt && <details><summary>Prompt{agent.prompt_file && <> (<Said text={agent.prompt_file} />)</>}</summary><Code text={agent.prompt} /></details>}
      {agent.plugins.length === 0 ? <p class="faint">It has no plugins.</p> : agent.plugins.map((one) => <AgentPlugin key={one.name} plugin={one} />)}
      {agent.tools.length > 0 && (
        <details>
          <summary>{plural(agent.tools.length - off, "tool")}{off > 0 && `, and ${off} switched off`}</summary>
          <ul class="lines">{agent.tools.map((one) => <li key={one.name}><code class={one.enabled ? "" : "faint"}><Said text={one.name} /></code> <span class="faint"><Said text={one.description} /></span>{!one.enabled && <span class="tag">off</span>}</li>)}</ul>
        </details>
      )}
      {project.file && may("projects:write") && <AddPlugin project={project} agent={agent} again={again} />}
    </Card>
  );
}

const takesPart = (plugin: Schemas["AgentPlugin"]): boolean => plugin.roles.length > 0;

// -- settings: the knobs of an agent's plugins, and how its context is compacted -------------------------

// How a context is compacted, and the knobs of the plugins that take part in it.
function Compaction({ project, agent, models }: { project: Project; agent: Agent; models: string[] }) {
  const told = agent.compaction;
  const helpers = agent.plugins.filter(takesPart);
  return (
    <Card title="Compaction">
      <Facts
        rows={[
          ["Strategy", told?.strategy ?? "the default"],
          ["Threshold", told?.threshold === undefined ? "the default" : `${Math.round(told.threshold * 100)} % of the window`],
          ["Recent turns kept", told?.keep_recent === undefined ? "the default" : String(told.keep_recent)],
          ["Summary by", told?.summary_model ?? "the agent's own model"],
          ["Delegated to", told?.delegate ?? "nobody"],
          ["Plugins that take part", helpers.length ? helpers.map((one) => `${one.name} (${one.roles.join(", ")})`).join(", ") : "no plugin"],
        ]}
      />
      {helpers.filter((one) => one.plugin).map((one) => <Knobs key={agent.path + one.name} within title={one.name} plugin={one.plugin!} project={project.id} agent={agent.path} models={models} />)}
    </Card>
  );
}

function Settings({ project, agent }: { project: Project; agent: Agent }) {
  const models = [...new Set((project.agents ?? []).flatMap((one) => [one.model, one.compaction?.summary_model]).filter((one): one is string => !!one))];
  return (
    <>
      <Compaction project={project} agent={agent} models={models} />
      {agent.plugins.filter((one) => one.plugin && !takesPart(one)).map((one) => <Knobs key={agent.path + one.name} title={one.name} plugin={one.plugin!} project={project.id} agent={agent.path} models={models} />)}
    </>
  );
}

// -- the tree of agents -----------------------------------------------------------------------------------

const BELOW = ".subagents.";
const nameOf = (agent: Agent): string => agent.path.slice(agent.path.lastIndexOf(BELOW) + 1).replace(/^subagents\./, "");

function Branch({ agents, above, chosen, base }: { agents: Agent[]; above: string; chosen: Agent; base: string }) {
  const here = agents.filter((one) => (above === "" ? !one.path.includes(BELOW) : one.path.startsWith(above + BELOW) && !one.path.slice(above.length + BELOW.length).includes(BELOW)));
  if (here.length === 0) return null;
  return (
    <ul>
      {here.map((one) => {
        const troubled = one.plugins.filter((plugin) => plugin.state !== "ready").length;
        return (
          <li key={one.path}>
            <a href={`${base}/${encodeURIComponent(one.path)}`} aria-current={one === chosen ? "true" : undefined}>
              <strong><Said text={nameOf(one)} /></strong> <span class="faint"><Said text={one.model ?? "no model"} />, {plural(one.plugins.length, "plugin")}</span>
              {troubled > 0 && <span class="tag">{troubled} not ready</span>}
            </a>
            <Branch agents={agents} above={one.path} chosen={chosen} base={base} />
          </li>
        );
      })}
    </ul>
  );
}

function Agents({ project, part, path, again }: { project: Project; part: string; path: string; again: () => void }) {
  const agents = project.agents ?? [];
  const chosen = agents.find((one) => one.path === path) ?? agents[0];
  if (!chosen) return <Card><Empty title="No agents">The project has not been read yet.</Empty></Card>;
  const shown = part === "settings" ? <Settings project={project} agent={chosen} /> : <AgentCard project={project} agent={chosen} again={again} />;
  if (agents.length === 1) return shown;
  return (
    <div class="agents">
      <nav class="card tree" aria-label="Agents"><Branch agents={agents} above="" chosen={chosen} base={`#/projects/${encodeURIComponent(project.id)}/${part}`} /></nav>
      <div class="stack">{shown}</div>
    </div>
  );
}

// -- a project ------------------------------------------------------------------------------------------

const changeWords = (one: Schemas["ProjectChanges"][number]): string =>
  [one.kind, one.agent, one.plugin, one.what, one.hidden ? "(hidden)" : `${"before" in one ? JSON.stringify(one.before) : "–"} → ${"after" in one ? JSON.stringify(one.after) : "–"}`].filter(Boolean).join(" ");

function Problems({ project }: { project: Project }) {
  return (
    <>
      {project.reload_problem && <div class="problem" role="alert"><strong><Said text={project.reload_problem.message} /></strong> <Said text={project.reload_problem.hint} /></div>}
      {project.held && <div class="caution" role="alert"><strong>A plugin may have changed its files. These changes wait for your reload:</strong><Code text={project.held.map(changeWords).join("\n")} /></div>}
      {(project.problems ?? []).map((one) => (
        <div key={`${one.line}${one.message}`} class={one.severity === "error" ? "problem" : "caution"}>
          <code>{harmless(project.file ?? "")}{one.line > 0 && `:${one.line}:${one.column}`}</code> <Said text={one.message} /> <Said text={one.hint} />
        </div>
      ))}
      {project.consents.length > 0 && (
        <Card title="Waiting for your decision">
          <ul class="waiting">{project.consents.map((one) => <li key={one.id}><a href={`#/consents/${one.id}`}><span class="what"><strong><Said text={one.plugin ?? one.source} /></strong> <Said class="faint" text={one.state_meaning} /></span><Badge word={one.state} /></a></li>)}</ul>
        </Card>
      )}
      {(project.missing ?? []).length > 0 && (
        <Card title="Not installed"><ul class="lines">{project.missing!.map((one) => <li key={one.package}><code><Said text={one.package} /></code> <Said class="faint" text={one.version} /> <Said class="faint" text={one.source} />{one.installed && <span class="tag">installed: {harmless(one.installed)}</span>}</li>)}</ul></Card>
      )}
    </>
  );
}

const PARTS = [{ key: "agents", name: "Agents" }, { key: "settings", name: "Settings" }];

export function ProjectView({ id, part, agent }: { id: string; part: string; agent: string }) {
  const asked = useAsk(() => call("GET /api/v1/projects/{id}", { path: { id } }), [id], { on: projectEvents });
  const chosen = part === "settings" ? part : "agents";
  return (
    <>
      <p class="crumb"><a href="#/projects">Projects</a> /</p>
      <Shown asked={asked}>
        {(project) => (
          <>
            <div class="head">
              <div>
                <h1><Said text={project.id} /> <Badge word={project.state} /></h1>
                <p class="lead"><Said text={project.reason} /></p>
                <p class="faint"><code><Said text={project.file ?? project.root} /></code>, read <Time at={project.loaded_at} />{project.watch && ", and reloaded when it changes"}</p>
              </div>
              {may("projects:write") && (
                <div class="actions">
                  <Act
                    act={async () => {
                      const done = await call("POST /api/v1/projects/{id}/reload", { path: { id } });
                      note("done", done.changes?.length ? plural(done.changes.length, "change") : "Nothing has changed.");
                      asked.again();
                    }}
                  >
                    Reload
                  </Act>
                  <Act
                    kind="plain"
                    act={() => askFirst({
                      title: `Unload ${id}?`,
                      yes: "Unload",
                      text: <p>kaged forgets it; its files and sessions stay.</p>,
                      act: async () => {
                        await call("DELETE /api/v1/projects/{id}", { path: { id } });
                        location.hash = "#/projects";
                      },
                    })}
                  >
                    Unload…
                  </Act>
                </div>
              )}
            </div>
            <Problems project={project} />
            <Tabs base={`#/projects/${encodeURIComponent(id)}`} chosen={chosen} tabs={PARTS} />
            <Agents project={project} part={chosen} path={agent} again={asked.again} />
          </>
        )}
      </Shown>
    </>
  );
}
