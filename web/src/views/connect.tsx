// How clients of the Model Context Protocol get the tools of the plugins, and which of them they may use.
import { useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, askFirst, Card, Code, Command, Empty, Field, note, Said, Shown, Tabs, Time } from "../ui";
import { harmless, plural, pretty } from "../words";

type Profile = Schemas["McpProfile"];
interface Way {
  key: string;
  name: string;
  writes?: boolean; // kaged mcp connect knows its file
  words?: string;
  command?: (words: string[]) => string;
  file?: (words: string[]) => unknown;
}
const entry = (words: string[]) => ({ command: "kaged", args: words });
const inMcpServers = (words: string[]) => ({ mcpServers: { kaged: entry(words) } });
const WAYS: Way[] = [
  { key: "claude", name: "Claude Code", writes: true, words: "Run this in the folder of the project:", command: (words) => `claude mcp add kaged -- kaged ${words.join(" ")}` },
  { key: "desktop", name: "Claude Desktop", words: "In claude_desktop_config.json:", file: inMcpServers },
  { key: "cursor", name: "Cursor", writes: true, words: "In .cursor/mcp.json of the project, or ~/.cursor/mcp.json for all:", file: inMcpServers },
  { key: "vscode", name: "VS Code", writes: true, words: "In .vscode/mcp.json of the project:", file: (words) => ({ servers: { kaged: { type: "stdio", ...entry(words) } } }) },
  { key: "opencode", name: "opencode", writes: true },
  { key: "gemini", name: "Gemini CLI", writes: true },
  { key: "codex", name: "Codex", writes: true },
  { key: "other", name: "Other clients", words: "A server on stdio, which is started with:", command: (words) => `kaged ${words.join(" ")}` },
];
const PATTERN = /^[A-Za-z0-9_.*-]{1,200}$/;
const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;

function Snippets({ profiles, chosen }: { profiles: Profile[]; chosen: string }) {
  const [profile, setProfile] = useState("");
  const [reads, setReads] = useState(false);
  const way = WAYS.find((one) => one.key === chosen) ?? WAYS[0];
  const less = [...(profile ? ["--profile", profile] : []), ...(reads ? ["--read-only"] : [])];
  const words = ["mcp", "serve", ...less];
  return (
    <Card title="On this machine">
      <Tabs base="#/connect" chosen={way.key} tabs={WAYS} />
      <div class="line">
        {profiles.length > 0 && (
          <Field label="Profile">
            {(id) => <select id={id} value={profile} onChange={(event) => setProfile(event.currentTarget.value)}><option value="">every tool</option>{profiles.map((one) => <option key={one.name} value={one.name}>{harmless(one.name)}</option>)}</select>}
          </Field>
        )}
        <label class="check"><input type="checkbox" checked={reads} onChange={(event) => setReads(event.currentTarget.checked)} /> Only tools that read</label>
      </div>
      {way.writes && <><p>{way.words ? "Let kaged write the entry to the client's file; every other byte stays:" : "kaged writes the entry into the client's file; every other byte of it stays:"}</p><Command text={["kaged mcp connect", way.key, ...less, "--write"].join(" ")} /></>}
      {way.words && <p>{way.writes ? `Or by hand. ${way.words}` : way.words}</p>}
      {way.command && <Command text={way.command(words)} />}
      {way.file && <><Code text={pretty(way.file(words))} label="The snippet" /><div><Act act={() => navigator.clipboard.writeText(pretty(way.file!(words)))} done="Copied.">Copy</Act></div></>}
      <p class="faint">The folder in which the client starts it is the project, with the plugins of its primary agent. Each runs in its cage, and every call is in the audit log.</p>
    </Card>
  );
}

function MakeProfile({ again }: { again: () => void }) {
  const [name, setName] = useState("");
  const [patterns, setPatterns] = useState("");
  const [reads, setReads] = useState(false);
  const tools = patterns.split(/\s+/).filter(Boolean);
  const wrongName = name && !NAME.test(name) ? "lower-case letters, digits, dots, dashes and underscores" : null;
  const wrong = tools.find((one) => !PATTERN.test(one));
  return (
    <>
      <div class="filters">
        <Field label="Name" problem={wrongName}>{(id, described) => <input id={id} aria-describedby={described} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <Field label="Tools" help="Patterns, separated by spaces: PLUGIN, or PLUGIN.TOOL, with * for anything." problem={wrong && `${wrong} is not a pattern`}>
          {(id, described) => <input id={id} aria-describedby={described} class="mono" placeholder="notes files.read_*" value={patterns} onInput={(event) => setPatterns(event.currentTarget.value)} />}
        </Field>
      </div>
      <label class="check"><input type="checkbox" checked={reads} onChange={(event) => setReads(event.currentTarget.checked)} /> Only those that read</label>
      <div class="actions">
        <Act
          disabled={!name || !!wrongName || tools.length === 0 || !!wrong}
          act={async () => {
            await call("PUT /api/v1/mcp/profiles/{profile}", { path: { profile: name }, body: { tools, read_only: reads } });
            note("done", `The profile ${name} is saved. It applies at once.`);
            setName("");
            setPatterns("");
            again();
          }}
        >
          Save the profile
        </Act>
      </div>
    </>
  );
}

function Profiles({ profiles, again }: { profiles: Profile[]; again: () => void }) {
  return (
    <Card title="Profiles: what clients may use">
      {profiles.length === 0 ? (
        <Empty title="No profiles">Without a profile, a client may use every tool that is offered. A profile names some of them; others are neither listed nor callable.</Empty>
      ) : (
        <ul class="lines">
          {profiles.map((one) => (
            <li key={one.name}>
              <strong><Said text={one.name} /></strong> <code><Said text={one.tools.join(" ")} /></code> {one.read_only && <span class="tag">only tools that read</span>}
              {may("admin") && (
                <Act kind="plain" label={`Remove ${one.name}`} act={() => askFirst({ title: `Remove the profile ${one.name}?`, yes: "Remove", danger: true, text: <p>Its clients can then use nothing.</p>, act: () => call("DELETE /api/v1/mcp/profiles/{profile}", { path: { profile: one.name } }).then(again) })}>Remove…</Act>
              )}
            </li>
          ))}
        </ul>
      )}
      {may("admin") && <MakeProfile again={again} />}
    </Card>
  );
}

// Who is connected, and what was called last.
function Activity() {
  const asked = useAsk(async () => {
    const { clients, activity } = await call("GET /api/v1/mcp/clients");
    const calls = may("audit:read") ? (await call("GET /api/v1/mcp/log", { query: { limit: 50 } })).calls : [];
    return { clients, activity, calls };
  }, [], { every: 3000 });
  return (
    <Card title="Clients">
      <Shown asked={asked}>
        {({ clients, activity, calls }) => (
          <>
            {clients.length === 0 ? (
              <Empty title="No client is connected">Connected clients and their last calls appear here.</Empty>
            ) : (
              <ul class="lines">
                {clients.map((one, index) => (
                  <li key={index}>
                    <strong><Said text={one.client} /></strong>
                    <span class="faint">
                      <Said text={one.owner} />{one.project && <>, in <Said text={one.project} /></>}{one.profile && <>, by the profile <Said text={one.profile} /></>}; {plural(one.calls, "call")}
                      {one.last_tool && <>, last <code><Said text={one.last_tool} /></code> (<Said text={one.last_outcome} />) <Time at={one.last_at} /></>}
                    </span>
                    {one.in_flight > 0 && <span class="tag">{plural(one.in_flight, "call")} under way</span>}
                  </li>
                ))}
              </ul>
            )}
            {activity === "off" && <p class="faint">Calls are not logged: mcp.activity is off.</p>}
            {calls.length > 0 && (
              <div class="scroll" tabIndex={0} role="region" aria-label="Calls of clients">
                <table>
                  <thead><tr><th scope="col">When</th><th scope="col">Client</th><th scope="col">Tool</th><th scope="col">Outcome</th><th scope="col">Took</th></tr></thead>
                  <tbody>{calls.map((one) => <tr key={one.id}><td><Time at={one.at} /></td><td><Said text={one.client} /></td><td><code><Said text={`${one.plugin}.${one.tool}`} /></code></td><td><Said text={one.outcome} /></td><td>{one.duration_ms} ms</td></tr>)}</tbody>
                </table>
              </div>
            )}
          </>
        )}
      </Shown>
    </Card>
  );
}

export function Connect({ chosen }: { chosen: string }) {
  const asked = useAsk(async () => {
    const [{ profiles }, { tcp }] = await Promise.all([call("GET /api/v1/mcp/profiles"), call("GET /api/v1/status")]);
    return { profiles, tcp };
  }, []);
  return (
    <>
      <div>
        <h1>Connect</h1>
        <p class="lead">With one entry in its file, an MCP client gets every tool that kaged runs, each in its cage.</p>
      </div>
      <Shown asked={asked}>
        {({ profiles, tcp }) => (
          <>
            <Snippets profiles={profiles} chosen={chosen} />
            <Card title="Over HTTP">
              {tcp ? <><p>Clients that take a URL use this one, with a <a href="#/access">token</a> of the scope <code>plugins:call</code> as <code>Authorization: Bearer …</code></p><Command text={`http://${tcp}/mcp`} /></> : <p class="faint">The daemon does not listen on TCP.</p>}
            </Card>
            <Activity />
            <Profiles profiles={profiles} again={asked.again} />
          </>
        )}
      </Shown>
    </>
  );
}
