// Tools by hand: what the agent's model could call, called by the operator. Call and result are kept in the session.
import { call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Empty, Said, Shown } from "../ui";
import { TryIt } from "./plugin-tools";

interface Declared {
  function?: { name?: string; parameters?: unknown };
}

async function toolsOf(session: Schemas["AgentSession"]) {
  const [project, context] = await Promise.all([
    call("GET /api/v1/projects/{id}", { path: { id: session.project_id } }),
    call("GET /api/v1/sessions/{id}/context", { path: { id: session.id }, query: { tools: "openai" } }),
  ]);
  const agent = (project.agents ?? []).find((one) => one.path === session.seat);
  const shapes = new Map((context.tools as Declared[] | undefined)?.map((one) => [one.function?.name, one.function?.parameters]));
  return (agent?.tools ?? []).filter((one) => one.enabled).map((one) => ({ ...one, schema: shapes.get(one.model_name) }));
}

export function ToolsByHand({ session, again }: { session: Schemas["AgentSession"]; again: () => void }) {
  const asked = useAsk(() => toolsOf(session), [session.id, session.seat], { on: (one) => one.type === "audit" && (one.event ?? "").startsWith("project.") });
  return (
    <Shown asked={asked}>
      {(tools) =>
        tools.length === 0 ? <Empty title="No tools">The plugins of <Said text={session.seat} /> offer none.</Empty> : tools.map((tool) => (
          <details key={tool.name} class="tool">
            <summary><code><Said text={tool.name} /></code> <span class="words"><Said text={tool.description} /></span></summary>
            <TryIt
              schema={tool.schema}
              yes="Call it"
              run={async (values) => {
                const done = await call("POST /api/v1/sessions/{id}/tools/{tool}", { path: { id: session.id, tool: tool.name }, body: values });
                again();
                if (done.is_error || done.blocked) throw new Error(typeof done.result === "string" ? done.result : JSON.stringify(done.result));
                return done.result;
              }}
            />
          </details>
        ))
      }
    </Shown>
  );
}
