// The tools and methods of a plugin, each with a form to try it.
import { useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { problemsOf, SchemaForm, type Values } from "../schema-form";
import { Act, askFirst, Badge, Card, Code, Empty, Field, Json, note, Said, Shown } from "../ui";
import { plural } from "../words";

type Tool = Schemas["Tool"];
type Plugin = Schemas["Plugin"];
type Outcome = { result: unknown; ms: number } | { error: Error; ms: number };

// Arguments as a form and, for whatever the form does not show, as JSON.
export function TryIt({ schema, run, yes }: { schema: unknown; run: (values: Values) => Promise<unknown>; yes: string }) {
  const [values, setValues] = useState<Values>({});
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const shape = (typeof schema === "object" && schema !== null ? schema : {}) as Record<string, unknown>;
  const hasForm = typeof shape.properties === "object";
  const wrong = hasForm ? problemsOf(shape, values) : [];
  const attempt = async () => {
    const began = performance.now();
    try {
      const result = await run(values);
      setOutcome({ result, ms: performance.now() - began });
    } catch (error) {
      setOutcome({ error: error as Error, ms: performance.now() - began });
    }
  };
  const whole = { type: "object", properties: { params: {} } };
  return (
    <div class="try">
      {hasForm ? <SchemaForm schema={shape} values={values} set={setValues} /> : <SchemaForm schema={whole} values={{ params: undefined }} set={(made) => setValues((made.params ?? {}) as Values)} />}
      <div class="actions">
        <Act kind="primary" disabled={wrong.length > 0} act={attempt}>{yes}</Act>
        {wrong.length > 0 && <span class="faint">{wrong[0]}</span>}
      </div>
      {outcome && (
        <div class={"error" in outcome ? "outcome failed" : "outcome"} role="status">
          <div class="faint">{"error" in outcome ? "Failed" : "Answered"} after {outcome.ms.toFixed(0)} ms</div>
          {"error" in outcome ? <Code text={outcome.error.message} /> : <Json value={outcome.result} label="The answer" />}
        </div>
      )}
    </div>
  );
}

// Agents call tools in their sessions, and so does who tries one: the call and its result are kept there.
function TryTool({ plugin, tool }: { plugin: Plugin; tool: Tool }) {
  const [chosen, setChosen] = useState("");
  const asked = useAsk(async () => (await call("GET /api/v1/sessions", { query: { limit: 200 } })).sessions.filter((one) => one.state !== "closed" && plugin.projects.includes(one.project_id)), [plugin.projects]);
  const begin = async () => {
    const made = await call("POST /api/v1/projects/{id}/sessions", { path: { id: plugin.projects[0] }, body: {} });
    setChosen(made.id);
    asked.again();
  };
  if (plugin.projects.length === 0) return <p class="faint">Tools are called by agents, in a session of a project that has the plugin. No loaded project has this one.</p>;
  return (
    <Shown asked={asked}>
      {(sessions) =>
        sessions.length === 0 ? (
          <div class="stack"><p class="faint">Tools are called by agents, in their sessions. There is none in <Said text={plugin.projects[0]} /> yet.</p><div><Act act={begin}>Start a session</Act></div></div>
        ) : (
          <div class="stack">
            <Field label="Session" help="The call and its result are recorded there.">
              {(id, described) => (
                <select id={id} aria-describedby={described} value={chosen || sessions[0].id} onChange={(event) => setChosen(event.currentTarget.value)}>
                  {sessions.map((one) => <option key={one.id} value={one.id}>{`${one.project_id}: ${one.id}`}</option>)}
                </select>
              )}
            </Field>
            <TryIt
              schema={tool.parameters_schema}
              yes="Call it"
              run={async (values) => {
                const done = await call("POST /api/v1/sessions/{id}/tools/{tool}", { path: { id: chosen || sessions[0].id, tool: tool.full_name }, body: values });
                if (done.is_error || done.blocked) throw new Error(typeof done.result === "string" ? done.result : JSON.stringify(done.result));
                return done.result;
              }}
            />
          </div>
        )
      }
    </Shown>
  );
}

function ToolRow({ plugin, tool, again }: { plugin: Plugin; tool: Tool; again: () => void }) {
  const path = { name: plugin.name };
  const decide = (body: Schemas["ToolsDecision"]) => call("POST /api/v1/plugins/{name}/tools", { path, body }).then(again);
  return (
    <details class="tool">
      <summary>
        <code><Said text={tool.full_name} /></code> {tool.state !== "approved" && <Badge word={tool.state} />}
        <span class="words"><Said text={tool.description} /></span>
      </summary>
      {tool.danger && <div class="problem"><Said text={tool.danger} /></div>}
      {tool.state === "changed" && <><p>It changed since it was approved. It is offered as it was; if you approve the change, it will be:</p><Json value={tool.now} /></>}
      {may("plugins:write") && (tool.state === "off" || tool.state === "approved") && tool.annotations !== undefined && (
        <div class="actions">{tool.state === "off" ? <Act act={() => decide({ on: tool.name })}>Turn it on</Act> : <Act act={() => decide({ off: tool.name })}>Turn it off</Act>}</div>
      )}
      {may("sessions:write") && (tool.state === "approved" || tool.state === "changed") && <TryTool plugin={plugin} tool={tool} />}
    </details>
  );
}

// What a yes is for.
const after = (tool: Tool) => tool.now ?? tool;

function approve(plugin: Plugin, tools: Schemas["Tools"], again: () => void): void {
  const waits = tools.tools.filter((one) => one.state === "new" || one.state === "changed" || one.state === "gone");
  askFirst({
    title: `Approve the tools of ${plugin.name}?`,
    yes: "Approve",
    text: (
      <>
        <p>{plural(waits.length, "tool")} that the server lists will be offered to models with these words:</p>
        <ul class="lines">
          {waits.map((one) => (
            <li key={one.name}>
              <code><Said text={one.name} /></code> <Badge word={one.state} /> <Said text={after(one).description} />
              {Object.keys(after(one).more ?? {}).length > 0 && <Json value={after(one).more} />}
            </li>
          ))}
        </ul>
        {waits.filter((one) => after(one).danger).map((one) => <div key={one.name} class="problem"><Said text={`${one.name}: ${after(one).danger}`} /></div>)}
      </>
    ),
    act: async () => {
      await call("POST /api/v1/plugins/{name}/tools", { path: { name: plugin.name }, body: { approve: tools.waits! } });
      note("done", "The tools are approved.");
      again();
    },
  });
}

function Methods({ plugin }: { plugin: Plugin }) {
  const asked = useAsk(() => call("GET /api/v1/plugins/{name}/schema", { path: { name: plugin.name } }), [plugin.name, plugin.version]);
  if (plugin.methods.length === 0) return <Empty title="No methods">Its manifest declares none.</Empty>;
  return (
    <Shown asked={asked}>
      {(declared) =>
        plugin.methods.map((method) => (
          <details key={method.name} class="tool">
            <summary><code><Said text={method.name} /></code> {!method.available && <span class="tag">not offered now</span>}</summary>
            {may("plugins:call") && <TryIt schema={declared.methods.find((one) => one.name === method.name)?.params} yes="Call it" run={(values) => call("POST /api/v1/plugins/{name}/call/{method}", { path: { name: plugin.name, method: method.name }, body: values })} />}
          </details>
        ))
      }
    </Shown>
  );
}

export function Tools({ plugin }: { plugin: Plugin }) {
  const asked = useAsk(() => call("GET /api/v1/plugins/{name}/tools", { path: { name: plugin.name } }), [plugin.name, plugin.version, plugin.state]);
  return (
    <>
      <Shown asked={asked}>
        {(tools) => (
          <Card title="Tools, for models" aside={tools.waits && may("plugins:write") && <Act kind="primary" act={() => approve(plugin, tools, asked.again)}>Approve the new tools…</Act>}>
            {tools.tools.length === 0 ? <Empty title="No tools">This plugin offers nothing to models.</Empty> : tools.tools.map((tool) => <ToolRow key={tool.full_name} plugin={plugin} tool={tool} again={asked.again} />)}
          </Card>
        )}
      </Shown>
      <Card title="Methods, for programs"><Methods plugin={plugin} /></Card>
    </>
  );
}
