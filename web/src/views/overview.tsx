// What waits for the operator, then what runs and how.
import { useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Chart } from "../chart";
import { courseOf } from "../figures";
import { Badge, Card, Command, Empty, Figure, Said, Shown, Time, Virtual } from "../ui";
import { bytes, count, micros, plural, rate, span } from "../words";

type PluginSummary = Schemas["PluginSummary"];
type Consent = Schemas["ConsentSummary"];

const STATES = ["failed", "crashed", "spawning", "stopping", "running", "idle", "stopped", "disabled"];
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

function Waiting({ consents, plugins, projects }: Pick<Schemas["Overview"], "consents" | "plugins" | "projects">) {
  const rows = [
    ...consents.map((one) => ({
      key: one.id,
      href: `#/consents/${one.id}`,
      title: one.plugin ?? one.source ?? "A plugin",
      text: one.state === "wanted" ? `${KIND_WORDS[one.kind]}; it must be fetched first` : KIND_WORDS[one.kind],
      at: one.raised_at as string | null,
      word: one.state as string,
    })),
    ...plugins.filter((one) => one.tools_wait && !one.name.includes("@")).map((one) => ({
      key: `tools ${one.name}`,
      href: `#/plugins/${encodeURIComponent(one.name)}/tools`,
      title: one.name,
      text: "lists tools that you have not approved; they are not offered",
      at: null,
      word: "new",
    })),
    ...plugins.filter((one) => one.state === "failed" || (one.problem && one.state !== "disabled")).map((one) => ({
      key: `plugin ${one.name}`,
      href: `#/plugins/${encodeURIComponent(one.name)}`,
      title: one.name,
      text: one.problem ?? one.last_exit_words ?? "is no longer restarted",
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
        <Empty title="No matches">No plugin has that name or state.</Empty>
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

function Figures({ overview }: { overview: Schemas["Overview"] }) {
  const { status, plugins, refusals, p50_us, p99_us } = overview;
  const caged = plugins.reduce((sum, one) => sum + one.memory_bytes, 0);
  const course = courseOf(overview.course, status.started_at);
  return (
    <div class="figures">
      <Figure name="Plugins" value={<>{count(status.plugins.running ?? 0)} <small>running</small></>} more={`of ${count(plugins.length)}`} />
      <Figure name="Calls per second" value={rate(course.now)} more={`${plural(status.calls, "call")}, ${count(status.errors)} failed`} />
      <Figure name="Median" value={micros(p50_us)} more={`p99 ${micros(p99_us)}`} />
      <Figure name="Refusals" value={count(refusals)} more="in the last hour" />
      <Figure name="Memory" value={bytes(caged + status.memory_bytes)} more={`${bytes(status.memory_bytes)} of it the daemon`} />
      <Chart title="Calls per second" times={course.times} lines={[{ name: "all", values: course.rate, colour: "accent" }, { name: "failed", values: course.errors, colour: "bad" }]} />
    </div>
  );
}

function First() {
  return (
    <Card>
      <Empty title="No plugin is installed yet">
        <p>A plugin is a folder, an archive, or a git repository with a <code>kaged-plugin.yaml</code>. Try one that came with kaged:</p>
        <Command text="kaged plugin install notes" />
        <p>or start your own:</p>
        <Command text="kaged plugin new my-plugin" />
      </Empty>
    </Card>
  );
}

const CHANGES = /^(consent|project|plugin\.(installed|un|up|tools_|net_denied|access_denied|storage_denied|notification_refused))/;

export function Overview() {
  const asked = useAsk(() => call("GET /api/v1/overview"), [], { every: 2000, on: (one) => one.type === "state" || (one.type === "audit" && CHANGES.test(one.event ?? "")) });
  return (
    <>
      <h1>Overview</h1>
      <Shown asked={asked}>
        {(overview) => {
          const { status, plugins, projects, consents } = overview;
          return (
            <>
              {status.audit_problem && <div class="problem" role="alert"><strong>No call is accepted: <Said text={status.audit_problem} /></strong></div>}
              <Waiting consents={consents} plugins={plugins} projects={projects} />
              {plugins.length === 0 ? <First /> : (
                <>
                  <Figures overview={overview} />
                  <Plugins plugins={plugins} />
                </>
              )}
              <p class="faint foot">kaged {status.version}, up for {span(status.uptime_ms)}, as {status.user}; cages: <Said text={status.cages} /></p>
            </>
          );
        }}
      </Shown>
    </>
  );
}
