// The daemon itself: whether it is well, where its things are, and what its configuration changed.
import { call } from "../api";
import { useAsk } from "../ask";
import { Act, Badge, Card, Command, Facts, Figure, note, Said, Shown, Time } from "../ui";
import { bytes, count, harmless, micros, span } from "../words";

// What the daemon found of all that cages need; a trial with a whole cage is the command's.
function Doctor() {
  const asked = useAsk(() => call("GET /api/v1/doctor"), []);
  return (
    <Shown asked={asked}>
      {({ checks, verdict }) => (
        <Card title="Is this machine ready?" aside={<Badge word={verdict === "full" ? "ok" : verdict === "none" ? "missing" : verdict} />}>
          <p>{verdict === "full" ? "Plugins run fully caged." : verdict === "degraded" ? "Plugins run caged, but some layers are missing." : "No plugin can start."}</p>
          <ul class="refusals">
            {checks.map((one) => (
              <li key={one.name}>
                <div>
                  <strong><Said text={one.name} /></strong> <Said text={one.detail} />
                  {one.means && <div class="faint"><Said text={one.means} /></div>}
                  {one.remedy && <div>{one.status === "ok" ? "Advice: " : "To fix it: "}<Said text={one.remedy} /></div>}
                </div>
                <Badge word={one.status} />
              </li>
            ))}
          </ul>
          <p class="faint">This is what the daemon found at its start. This command checks again, and builds a full cage:</p>
          <Command text="kaged doctor" />
        </Card>
      )}
    </Shown>
  );
}

// What the operator loaded into the daemon; most have none, and see nothing of it.
function SystemPlugins() {
  const asked = useAsk(() => call("GET /api/v1/system-plugins"), [], { every: 5000 });
  const plugins = asked.value?.system_plugins ?? [];
  if (plugins.length === 0) return null;
  return (
    <Card title="System plugins">
      <div class="scroll" tabIndex={0} role="region" aria-label="System plugins">
        <table>
          <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Calls</th><th scope="col">Over 50 ms</th><th scope="col">Dropped</th><th scope="col">File</th></tr></thead>
          <tbody>
            {plugins.map((one) => (
              <tr key={one.name}>
                <td><Said text={one.name} /></td>
                <td><Badge word={one.state} />{(one.problem ?? one.left_in) && <div><Said text={one.problem ?? `The daemon ended while it was doing this: ${one.left_in}`} /></div>}</td>
                <td>{count(one.calls)}</td>
                <td>{count(one.slow)}</td>
                <td>{count(one.dropped)}</td>
                <td><code><Said text={one.path} /></code></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

export function DaemonView() {
  const asked = useAsk(() => call("GET /api/v1/status"), [], { every: 2000 });
  const reload = async () => {
    const { changed, problems } = await call("POST /api/v1/reload");
    for (const one of problems) note("failed", `${one.plugin}: ${one.message}`, one.hint);
    note("done", changed.length ? changed.map((one) => `${one.key} applies ${one.applies}`).join("; ") : "Nothing has changed.");
  };
  return (
    <>
      <div class="head"><h1>Daemon</h1><div class="actions"><Act act={reload}>Reload the configuration</Act></div></div>
      <Shown asked={asked}>
        {(status) => (
          <>
            {status.audit_problem && <div class="problem" role="alert"><strong>No call is accepted: <Said text={status.audit_problem} /></strong></div>}
            {status.tcp_problem && <div class="problem" role="alert"><Said text={status.tcp_problem} /></div>}
            {status.cages !== "full" && <div class="caution" role="alert"><strong>Cages: <Said text={status.cages} /></strong></div>}
            <div class="figures">
              <Figure name="Up for" value={span(status.uptime_ms)} more={<>since <Time at={status.started_at} /></>} />
              <Figure name="Memory" value={bytes(status.memory_bytes)} more="without its plugins" />
              <Figure name="Loop lag" value={micros(status.loop_lag_us)} more={`at most ${micros(status.loop_lag_max_us)}`} />
              <Figure name="Audit events" value={count(status.audit_events)} more={`${bytes(status.audit_queue_bytes)} wait to be written`} />
              <Figure name="Open files" value={count(status.open_fds)} />
            </div>
            <Card title="Facts">
              <Facts
                rows={[
                  ["Version", status.version],
                  ["Process", `${status.pid}, as ${status.user}`],
                  ["Cages", <Said text={status.cages} />],
                  ["Home", <code><Said text={status.home ?? "the default places"} /></code>],
                  ["Configuration", <code><Said text={status.config_file} /></code>],
                  ["Socket", <code><Said text={status.socket} /></code>],
                  ["TCP", status.tcp ?? "not listening"],
                  ["Log", <code><Said text={status.log} /></code>],
                  ["Limits", harmless(status.limits)],
                ]}
              />
            </Card>
            <Doctor />
            <SystemPlugins />
          </>
        )}
      </Shown>
    </>
  );
}
