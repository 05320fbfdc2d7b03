// What waits for the operator, then what runs and how.
import { useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Chart } from "../chart";
import { useCourse } from "../figures";
import { Badge, Card, Command, Empty, Figure, Said, Shown, Time, Virtual } from "../ui";
import { bytes, count, micros, plural, span } from "../words";

type PluginSummary = Schemas["PluginSummary"];
type Consent = Schemas["ConsentSummary"];

const STATES = ["failed", "crashed", "spawning", "stopping", "running", "idle", "stopped", "disabled"];
const REFUSED = ["plugin.net_denied", "plugin.access_denied", "plugin.storage_denied", "plugin.notification_refused"];
const ROW = 58;
const FEW = 40; // as many are just there

const byNeed = (a: PluginSummary, b: PluginSummary) =>
  Number(!!b.problem) - Number(!!a.problem) || STATES.indexOf(a.state) - STATES.indexOf(b.state) || a.name.localeCompare(b.name);

const KIND_WORDS: Record<Consent["kind"], string> = {
  install: "wants to be installed",
  upgrade: "wants to be upgraded",
  approve: "has files that wait for approval",
  activate: "is wanted by a project",
  dev: "wants to run from its author's folder",
};

function Waiting({ consents, held, plugins, projects }: { consents: Consent[]; held: string[]; plugins: PluginSummary[]; projects: Schemas["ProjectList"]["projects"] }) {
  const rows = [
    ...consents.map((one) => ({
      key: one.id,
      href: `#/consents/${one.id}`,
      title: one.plugin ?? one.source ?? "A plugin",
      text: one.state === "wanted" ? `${KIND_WORDS[one.kind]}; it has to be fetched first` : KIND_WORDS[one.kind],
      at: one.raised_at as string | null,
      word: one.state as string,
    })),
    ...held.map((name) => ({
      key: `tools ${name}`,
      href: `#/plugins/${encodeURIComponent(name)}/tools`,
      title: name,
      text: "lists tools that you have not approved: they are offered to nobody",
      at: null,
      word: "new",
    })),
    ...plugins.filter((one) => one.state === "failed" || (one.problem && one.state !== "disabled")).map((one) => ({
      key: `plugin ${one.name}`,
      href: `#/plugins/${encodeURIComponent(one.name)}`,
      title: one.name,
      text: one.problem ?? one.last_exit_words ?? "is not restarted any more",
      at: null,
      word: one.state as string,
    })),
    ...projects.filter((one) => one.state === "pending").map((one) => ({
      key: `project ${one.id}`,
      href: `#/projects/${encodeURIComponent(one.id)}`,
      title: one.id,
      text: one.reason ?? "waits",
      at: null,
      word: one.state as string,
    })),
  ];
  if (rows.length === 0) return null;
  return (
    <Card title={`Waiting for you (${count(rows.length)})`}>
      <ul class="waiting">
        {rows.slice(0, 12).map((row) => (
          <li key={row.key}>
            <a href={row.href}>
              <span class="what">
                <strong><Said text={row.title} /></strong> <Said text={row.text} />
              </span>
              {row.at && <span class="faint"><Time at={row.at} /></span>}
              <Badge word={row.word} />
            </a>
          </li>
        ))}
      </ul>
      {rows.length > 12 && <p class="faint">and {count(rows.length - 12)} more</p>}
    </Card>
  );
}

function PluginRow({ plugin }: { plugin: PluginSummary }) {
  const words = plugin.problem ?? (plugin.state === "running" ? null : plugin.last_exit_words) ?? plugin.description;
  return (
    <a class="plugin" href={`#/plugins/${encodeURIComponent(plugin.name)}`}>
      <span class="id">
        <strong><Said text={plugin.name} /></strong> <Said class="faint" text={plugin.version} />
        {plugin.dev && <span class="tag">dev</span>}
        <span class="words"><Said text={words} /></span>
      </span>
      <span class="number wide" title="Calls, and how many failed">{count(plugin.calls)}{plugin.errors > 0 && <span class="bad"> / {count(plugin.errors)}</span>}</span>
      <span class="number wide" title="Median and 99th percentile of calls">{micros(plugin.p50_us)} · {micros(plugin.p99_us)}</span>
      <span class="number wide" title="Memory">{plugin.memory_bytes ? bytes(plugin.memory_bytes) : "–"}</span>
      <span class="state"><Badge word={plugin.state} /></span>
    </a>
  );
}

function Plugins({ plugins }: { plugins: PluginSummary[] }) {
  const [filter, setFilter] = useState("");
  const [state, setState] = useState("");
  const states = STATES.map((one) => [one, plugins.filter((plugin) => plugin.state === one).length] as const).filter(([, some]) => some > 0);
  const wanted = filter.toLowerCase();
  const rows = plugins
    .filter((one) => (!state || one.state === state) && (!wanted || `${one.name} ${one.description ?? ""}`.toLowerCase().includes(wanted)))
    .sort(byNeed);
  const aside = (
    <>
      {states.length > 1 && (
        <select aria-label="State" value={state} onChange={(event) => setState(event.currentTarget.value)}>
          <option value="">all states</option>
          {states.map(([one, some]) => <option key={one} value={one}>{`${one} (${some})`}</option>)}
        </select>
      )}
      <input type="search" aria-label="Find a plugin" placeholder="Find a plugin" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
    </>
  );
  return (
    <Card title={plural(plugins.length, "plugin")} aside={plugins.length > 3 && aside}>
      {rows.length === 0 ? (
        <Empty title="Nothing fits">No plugin has that name or state.</Empty>
      ) : (
        <>
      <div class="plugin columns wide" aria-hidden="true"><span class="id">Plugin</span><span class="number">Calls</span><span class="number">Median · p99</span><span class="number">Memory</span><span class="state">State</span></div>
      {rows.length <= FEW ? (
        <ul class="plugins">{rows.map((one) => <li key={one.name}><PluginRow plugin={one} /></li>)}</ul>
      ) : (
        <Virtual class="plugins tall" label="Plugins" rows={rows} height={ROW} render={(one) => <PluginRow plugin={one} />} />
      )}
        </>
      )}
    </Card>
  );
}

function Figures({ status, plugins, refusals }: { status: Schemas["Status"]; plugins: PluginSummary[]; refusals: number | undefined }) {
  const caged = plugins.reduce((sum, one) => sum + one.memory_bytes, 0);
  const course = useCourse(status);
  const worst = (key: "p50_us" | "p99_us") => Math.max(0, ...plugins.map((one) => one[key]));
  return (
    <div class="figures">
      <Figure name="Plugins" value={<>{count(status.plugins.running ?? 0)} <small>running</small></>} more={`of ${count(plugins.length)}`} />
      <Figure name="Calls a second" value={course.now === null ? "–" : course.now < 10 ? course.now.toFixed(1) : count(Math.round(course.now))} more={`${plural(status.calls, "call")}, ${count(status.errors)} failed`} />
      <Figure name="Slowest median" value={micros(worst("p50_us"))} more={`p99 ${micros(worst("p99_us"))}`} />
      <Figure name="Refusals" value={refusals === undefined ? "–" : refusals >= 200 ? "200+" : count(refusals)} more="in the last hour" />
      <Figure name="Memory" value={bytes(caged + status.memory_bytes)} more={`${bytes(status.memory_bytes)} of it the daemon`} />
      <div class="figure chartbox">
        <div class="name">Calls a second, and those that failed</div>
        <Chart label="Calls a second over the last minutes" times={course.times} lines={[{ values: course.rate, colour: "accent" }, { values: course.errors, colour: "bad" }]} />
      </div>
    </div>
  );
}

function First() {
  return (
    <Card>
      <Empty title="No plugin is installed yet">
        <p>A plugin is a folder, an archive, or a git repository with a <code>kaged-plugin.yaml</code>. Try one that came with kaged:</p>
        <Command text="kaged plugin install notes" />
        <p>or begin your own:</p>
        <Command text="kaged plugin new my-plugin" />
      </Empty>
    </Card>
  );
}

// Servers whose tools wait: those that the audit log told of lately, and that still have some.
async function heldTools(): Promise<string[]> {
  const { events } = await call("GET /api/v1/audit", { query: { event: "plugin.tools_held", limit: 100 } });
  const names = [...new Set(events.map((one) => String(one.name)))].slice(-20);
  const waits = await Promise.all(names.map((name) => call("GET /api/v1/plugins/{name}/tools", { path: { name } }).then((tools) => !!tools.waits, () => false)));
  return names.filter((_, index) => waits[index]);
}

export function Overview() {
  const changed = { every: 2000, on: (one: { type: string; event?: string }) => one.type === "state" || (one.type === "audit" && /^(consent|project|plugin\.(installed|un|up))/.test(one.event ?? "")) };
  const asked = useAsk(async () => {
    const [status, { plugins }, { consents }, { projects }] = await Promise.all([
      call("GET /api/v1/status"), call("GET /api/v1/plugins"), call("GET /api/v1/consents"), call("GET /api/v1/projects"),
    ]);
    return { status, plugins, projects, consents: consents.filter((one) => one.state === "offered" || one.state === "wanted") };
  }, [], changed);
  const refusals = useAsk(async () => {
    const found = await Promise.all(REFUSED.map((event) => call("GET /api/v1/audit", { query: { event, since: "1h", limit: 200 } })));
    return found.reduce((sum, one) => sum + one.events.length, 0);
  }, [], { on: (one) => one.type === "audit" && REFUSED.includes(one.event ?? "") });
  const held = useAsk(heldTools, [], { on: (one) => one.type === "audit" && /^plugin\.tools_/.test(one.event ?? "") });
  return (
    <>
      <h1>Overview</h1>
      <Shown asked={asked}>
        {({ status, plugins, projects, consents }) => (
          <>
            {status.audit_problem && <div class="problem" role="alert"><strong>No call is taken: <Said text={status.audit_problem} /></strong></div>}
            <Waiting consents={consents} held={held.value ?? []} plugins={plugins} projects={projects} />
            {plugins.length === 0 ? <First /> : (
              <>
                <Figures status={status} plugins={plugins} refusals={refusals.value} />
                <Plugins plugins={plugins} />
              </>
            )}
            <p class="faint foot">kaged {status.version}, up for {span(status.uptime_ms)}, as {status.user}; cages: <Said text={status.cages} /></p>
          </>
        )}
      </Shown>
    </>
  );
}
