// One plugin: how it is, what it may do, what it was refused, what it says, and what can be asked of it.
import type { ComponentChild } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Chart } from "../chart";
import { courseOf } from "../figures";
import { Act, askFirst, Badge, Card, Code, Empty, Facts, Figure, note, Said, Shown, Tabs, Time } from "../ui";
import { bytes, count, micros, plural, rate } from "../words";
import { Log } from "./plugin-log";
import { Storage } from "./plugin-storage";
import { Tools } from "./plugin-tools";
import { Trace } from "./plugin-trace";

type Plugin = Schemas["Plugin"];
interface PartProps {
  plugin: Plugin;
  again: () => void;
}

// -- what is done with it ---------------------------------------------------------------------------

function uninstall(plugin: Plugin): void {
  askFirst({
    title: `Uninstall ${plugin.name}?`,
    danger: true,
    yes: "Uninstall",
    text: <p>It is stopped and removed with its database. Its own files stay.</p>,
    act: async () => {
      await call("DELETE /api/v1/plugins/{name}", { path: { name: plugin.name } });
      note("done", `${plugin.name} is uninstalled.`);
      location.hash = "#/";
    },
  });
}

function Actions({ plugin, again }: PartProps) {
  if (!may("plugins:write")) return null;
  const path = { name: plugin.name };
  const then = async (work: Promise<unknown>) => {
    await work;
    again();
  };
  const off = plugin.state === "disabled";
  const stuck = plugin.state === "failed";
  return (
    <div class="actions">
      {(off || stuck) && <Act kind="primary" act={() => then(call("POST /api/v1/plugins/{name}/enable", { path }))}>Enable</Act>}
      {!off && <Act act={() => then(call("POST /api/v1/plugins/{name}/restart", { path }))}>Restart</Act>}
      <Act
        act={async () => {
          const done = await call("POST /api/v1/plugins/{name}/reload", { path });
          const why = done.reasons.length ? `: ${done.reasons.join(", ")}` : "";
          note("done", { nothing: "Nothing has changed.", read: "Its files were reloaded.", told: "It was sent its new configuration.", restarted: `It was restarted${why}.` }[done.action]);
          again();
        }}
      >
        Reload
      </Act>
      {!off && <Act act={() => then(call("POST /api/v1/plugins/{name}/disable", { path }))}>Disable</Act>}
      <Act kind="plain" act={() => uninstall(plugin)}>Uninstall…</Act>
    </div>
  );
}

// -- how it is ----------------------------------------------------------------------------------------

function LastExit({ exit }: { exit: Plugin["last_exit"] }) {
  if (!exit) return null;
  return (
    <Card title="Last exit" aside={<span class="faint"><Time at={exit.at} /></span>}>
      <p><Said text={exit.words} /></p>
      {exit.restart_at && <p class="faint">It restarts <Time at={exit.restart_at} />, after {plural(exit.failures, "failure")} in a row.</p>}
      {exit.last_stderr.length > 0 && <Code label="Its last lines" text={exit.last_stderr.join("\n")} />}
    </Card>
  );
}

function Now({ plugin }: PartProps) {
  const course = courseOf(plugin.course);
  return (
    <>
      <div class="figures">
        <Figure name="Calls per second" value={rate(course.now)} more={`${plural(plugin.calls, "call")}, ${count(plugin.errors)} failed`} />
        <Figure name="Median" value={micros(plugin.p50_us)} more={`p99 ${micros(plugin.p99_us)}`} />
        <Figure name="Memory" value={plugin.memory_bytes ? bytes(plugin.memory_bytes) : "–"} more={plugin.limits ? `of at most ${bytes(plugin.limits.memory_bytes)}` : ""} />
        <Figure name="Started" value={<Time at={plugin.started_at} />} more={plural(plugin.starts, "start")} />
        <div class="charts">
          <Chart title="Calls per second" times={course.times} lines={[{ name: "all", values: course.rate, colour: "accent" }, { name: "failed", values: course.errors, colour: "bad" }]} />
          <Chart title="Latency" times={course.times} least={100} unit={(us) => (us === 0 ? "0" : micros(us))} lines={[{ name: "median", values: course.p50, colour: "accent" }, { name: "p99", values: course.p99, colour: "busy" }]} />
        </div>
      </div>
      <LastExit exit={plugin.last_exit} />
      {plugin.config_refused && <div class="problem" role="alert"><strong>It rejected its last configuration.</strong> <Said text={plugin.config_refused} /></div>}
      {plugin.quarantined.length > 0 && <Card title="Moved to the quarantine"><Code text={plugin.quarantined.join("\n")} /></Card>}
      <Card title="Facts">
        <Facts
          rows={[
            ["Folder", <code><Said text={plugin.dir} /></code>],
            ["Homepage", plugin.homepage ? <Said text={plugin.homepage} /> : <span class="faint">–</span>],
            ["Process", plugin.pid ? `${plugin.pid}${plugin.cage_id ? `, in ${plugin.cage_id}` : ""}` : "none"],
            ["Projects", plugin.projects.length ? plugin.projects.map((one) => <a key={one} href={`#/projects/${encodeURIComponent(one)}`}><Said text={one} /> </a>) : "none"],
            ["Traffic", `${bytes(plugin.bytes_in)} in, ${bytes(plugin.bytes_out)} out`],
            ["Health checks", plugin.health_failures ? plural(plugin.health_failures, "failure") : "no failures"],
            ["Limits hit", plugin.memory_kills + plugin.fork_refusals === 0 ? "none" : `${plural(plugin.memory_kills, "kill")} for memory, ${plural(plugin.fork_refusals, "process", "processes")} refused`],
          ]}
        />
      </Card>
    </>
  );
}

// -- what it may do -----------------------------------------------------------------------------------

function change(plugin: Plugin, what: "grant" | "revoke", capability: string, again: () => void): void {
  const grants = what === "grant";
  askFirst({
    title: grants ? `Grant this to ${plugin.name}?` : `Revoke this from ${plugin.name}?`,
    danger: true,
    yes: grants ? "Grant" : "Revoke",
    text: (
      <>
        <Code text={capability} />
        <p>{grants ? "It applies from the plugin's next start; if it is running, it is restarted now. It stays until you revoke it." : "If the plugin is running, it is restarted without it."}</p>
      </>
    ),
    act: async () => {
      const body = { capabilities: [capability] };
      const path = { name: plugin.name };
      await (grants ? call("POST /api/v1/plugins/{name}/grant", { path, body }) : call("POST /api/v1/plugins/{name}/revoke", { path, body }));
      note("done", grants ? `Granted to ${plugin.name}.` : `Revoked from ${plugin.name}.`);
      again();
    },
  });
}

function Capabilities({ plugin, again }: PartProps) {
  const granted = new Set(plugin.granted);
  const rows = plugin.capabilities ?? [];
  if (rows.length === 0 && !plugin.closed?.length) return <p class="faint">It may do nothing beyond computing: no file, no host, no storage.</p>;
  return (
    <ul class="lines">
      {rows.map((one) => (
        <li key={one}>
          <code><Said text={one} /></code>
          {granted.has(one) && <span class="tag">granted by you</span>}
          {may("admin") && <Act kind="plain" label={`Revoke ${one}`} act={() => change(plugin, "revoke", one, again)}>Revoke…</Act>}
        </li>
      ))}
      {plugin.closed?.map((one) => (
        <li key={one}>
          <s><code><Said text={one} /></code></s> <span class="tag">revoked by you</span>
          {may("admin") && <Act kind="plain" label={`Grant ${one}`} act={() => change(plugin, "grant", one, again)}>Grant…</Act>}
        </li>
      ))}
    </ul>
  );
}

function Cage({ plugin, again }: PartProps) {
  const asked = useAsk(() => call("GET /api/v1/plugins/{name}", { path: { name: plugin.name }, query: { cage: true } }), [plugin.name, plugin.pid, plugin.capabilities, plugin.closed]);
  return (
    <>
      <Card title="What it may do"><Capabilities plugin={plugin} again={again} /></Card>
      <Card title="Its cage, in words">
        <Shown asked={asked}>
          {({ cage }) => cage?.problem ? <div class="problem"><strong><Said text={cage.problem} /></strong> <Said text={cage.hint} /></div> : <Code text={cage?.words.join("\n") ?? ""} />}
        </Shown>
      </Card>
    </>
  );
}

const REFUSALS = /^plugin\.(net_denied|access_denied|storage_denied|notification_refused)$/;

function Refused({ plugin, again }: PartProps) {
  const asked = useAsk(() => call("GET /api/v1/plugins/{name}/why", { path: { name: plugin.name } }), [plugin.name, plugin.capabilities], {
    on: (one) => one.type === "audit" && one.name === plugin.name && REFUSALS.test(one.event ?? ""),
  });
  return (
    <Shown asked={asked}>
      {({ refusals, knowledge }) => (
        <Card title="What it was refused">
          {refusals.length === 0 ? (
            <Empty title="Nothing"><Said text={knowledge} /></Empty>
          ) : (
            <>
              <ul class="refusals">
                {refusals.map((one) => (
                  <li key={one.what}>
                    <div>
                      <strong><Said text={one.what} /></strong>
                      <div class="faint"><Said text={one.reason} />; {plural(one.count, "time")}, last <Time at={one.last} /></div>
                      {one.capability && <div>Would be allowed by <code><Said text={one.capability} /></code></div>}
                      {one.closed_by && <div>You revoked it: <code><Said text={one.closed_by} /></code></div>}
                    </div>
                    {one.capability && may("admin") && <Act act={() => change(plugin, "grant", one.capability!, () => { again(); asked.again(); })}>Grant…</Act>}
                  </li>
                ))}
              </ul>
              <p class="faint"><Said text={knowledge} /></p>
            </>
          )}
        </Card>
      )}
    </Shown>
  );
}

// -- all of it ----------------------------------------------------------------------------------------

const PARTS: { key: string; name: string; scope: Schemas["Scope"]; show: (props: PartProps) => ComponentChild }[] = [
  { key: "now", name: "Now", scope: "plugins:read", show: (props) => <Now {...props} /> },
  { key: "cage", name: "Cage", scope: "plugins:read", show: (props) => <Cage {...props} /> },
  { key: "refused", name: "Refused", scope: "plugins:read", show: (props) => <Refused {...props} /> },
  { key: "tools", name: "Tools and methods", scope: "plugins:read", show: (props) => <Tools {...props} /> },
  { key: "log", name: "Log", scope: "plugins:read", show: ({ plugin }) => <Log name={plugin.name} /> },
  { key: "storage", name: "Storage", scope: "plugins:read", show: ({ plugin }) => <Storage name={plugin.name} /> },
  { key: "trace", name: "Trace", scope: "admin", show: (props) => <Trace {...props} /> },
];

export function Plugin({ name, part }: { name: string; part: string }) {
  const asked = useAsk(() => call("GET /api/v1/plugins/{name}", { path: { name } }), [name], {
    every: 2000,
    on: (one) => one.plugin === name || (one.type === "audit" && one.name === name && /granted|revoked|upgraded|approved/.test(one.event ?? "")),
  });
  const [gone, setGone] = useState(false);
  useEffect(() => setGone(asked.error !== undefined && !asked.value), [asked.error]);
  const chosen = PARTS.find((one) => one.key === part) ?? PARTS[0];
  return (
    <>
      <p class="crumb"><a href="#/">Overview</a> /</p>
      <Shown asked={asked}>
        {(plugin) => (
          <>
            <div class="head">
              <div>
                <h1><Said text={plugin.name} /> <small><Said text={plugin.version} /></small> <Badge word={plugin.state} /></h1>
                <p class="lead"><Said text={plugin.description} /></p>
                <p class="faint"><Said text={plugin.state_meaning} /></p>
              </div>
              <Actions plugin={plugin} again={asked.again} />
            </div>
            {plugin.problem && <div class="problem" role="alert"><strong><Said text={plugin.problem} /></strong> <Said text={plugin.problem_hint} /></div>}
            <Tabs base={`#/plugins/${encodeURIComponent(name)}`} chosen={chosen.key} tabs={PARTS.filter((one) => may(one.scope))} />
            {chosen.show({ plugin, again: asked.again })}
          </>
        )}
      </Shown>
      {gone && <p><a href="#/">Back to the overview</a></p>}
    </>
  );
}
