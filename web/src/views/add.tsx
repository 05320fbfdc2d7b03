// A plugin from a source, a file that is dropped, or the file of another client. Nothing of it runs before the
// operator has seen what it may do.
import { useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, askFirst, Badge, Card, Code, Command, Drop, Empty, Field, note, Said, Shown } from "../ui";
import { bytes, plural } from "../words";

const words = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const SECRET_NAME_MAX = 64;

const look = (consent: { id: string }): void => {
  location.hash = `#/consents/${consent.id}`;
};

// -- from a source --------------------------------------------------------------------------------------

interface Secret {
  name: string; // of the variable
  value: string;
}
interface Wanted {
  source: string;
  version: string;
  name: string;
  args: string;
  env: string;
  grants: string;
  secrets: Secret[];
}
const NOTHING: Wanted = { source: "", version: "", name: "", args: "", env: "", grants: "", secrets: [] };

// What a secret is kept as: for the plugin, if it has a name here, else for its source.
function secretName(wanted: Wanted, secret: Secret): string {
  const owner = (wanted.name.trim() || wanted.source.trim().replace(/\/+$/, "").split("/").at(-1)!.replace(/\.[a-z]+$/, "")).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `${(owner || "plugin").slice(0, SECRET_NAME_MAX - 1 - secret.name.length)}.${secret.name}`;
}

function bodyOf(wanted: Wanted): Schemas["Source"] {
  const env = Object.fromEntries([
    ...words(wanted.env).map((line) => VARIABLE.exec(line)!.slice(1, 3)),
    ...wanted.secrets.map((one) => [one.name, `\${secret:${secretName(wanted, one)}}`]),
  ]);
  const args = words(wanted.args);
  const grants = words(wanted.grants);
  const name = wanted.name.trim();
  return {
    source: wanted.source.trim(),
    version: wanted.version.trim() || null,
    ...(grants.length > 0 && { grants }),
    ...(Object.keys(env).length > 0 && { env }),
    ...((name || args.length > 0) && { server: { ...(name && { name }), ...(args.length > 0 && { args }) } }),
  };
}

// Written, and never shown again: not here, and not by the daemon.
function SecretFields({ secrets, set }: { secrets: Secret[]; set: (secrets: Secret[]) => void }) {
  const change = (at: number, part: Partial<Secret>) => set(secrets.map((one, index) => (index === at ? { ...one, ...part } : one)));
  return (
    <fieldset class="stack plainset">
      <legend>Secrets in its environment</legend>
      {secrets.map((one, index) => (
        <div key={index} class="line">
          <input class="mono" aria-label={`Name of variable ${index + 1}`} placeholder="API_KEY" autocomplete="off" spellcheck={false} value={one.name} onInput={(event) => change(index, { name: event.currentTarget.value })} />
          <input class="grow" type="password" aria-label={`Value of variable ${index + 1}`} placeholder="its value" autocomplete="new-password" value={one.value} onInput={(event) => change(index, { value: event.currentTarget.value })} />
          <Act kind="plain" label={`Remove variable ${index + 1}`} act={() => set(secrets.filter((_, at) => at !== index))}>✕</Act>
        </div>
      ))}
      <div><Act act={() => set([...secrets, { name: "", value: "" }])}>Add a secret</Act></div>
      <div class="help faint">A value is sealed on the daemon's machine, and cannot be read back; the plugin's settings only have its name.</div>
    </fieldset>
  );
}

function problemOf(wanted: Wanted): string | null {
  const line = words(wanted.env).find((one) => !VARIABLE.test(one));
  if (line !== undefined) return `${line} is not NAME=value`;
  const secret = wanted.secrets.find((one) => !NAME.test(one.name) || one.value === "");
  return secret ? (NAME.test(secret.name) ? `${secret.name} has no value` : `"${secret.name}" is not the name of a variable`) : null;
}

function FromSource() {
  const [wanted, setWanted] = useState<Wanted>(NOTHING);
  const set = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  const wrongLine = words(wanted.env).find((line) => !VARIABLE.test(line));
  const wrong = problemOf(wanted);
  const fetch = async () => {
    for (const one of wanted.secrets) await call("PUT /api/v1/secrets/{secret}", { path: { secret: secretName(wanted, one) }, body: { value: one.value } });
    look(await call("POST /api/v1/plugins", { body: bodyOf(wanted) }));
  };
  return (
    <Card title="From a source">
      <form class="stack" onSubmit={(event) => event.preventDefault()}>
        <Field label="Source" help="The absolute path of a folder or an archive (also .mcpb) on the daemon's machine, the URL of a git repository, npm:PACKAGE for an MCP server from npm, or catalog:PID for a package of the catalog.">
          {(id, described) => <input id={id} aria-describedby={described} class="mono" value={wanted.source} autocomplete="off" spellcheck={false} placeholder="npm:@modelcontextprotocol/server-filesystem" onInput={(event) => set({ source: event.currentTarget.value })} />}
        </Field>
        <Field label="Version (optional)" help="For a git repository, a tag; for a package, its version, a range, or a tag.">
          {(id, described) => <input id={id} aria-describedby={described} class="mono" value={wanted.version} autocomplete="off" onInput={(event) => set({ version: event.currentTarget.value })} />}
        </Field>
        <details>
          <summary>Options for MCP servers, secrets and grants</summary>
          <div class="stack">
            <Field label="Name (optional)" help="The plugin's name in kaged.">{(id, described) => <input id={id} aria-describedby={described} value={wanted.name} autocomplete="off" onInput={(event) => set({ name: event.currentTarget.value })} />}</Field>
            <Field label="Arguments (optional)" help="The arguments of its program, one per line.">{(id, described) => <textarea id={id} aria-describedby={described} class="mono" rows={2} value={wanted.args} onInput={(event) => set({ args: event.currentTarget.value })} />}</Field>
            <Field label="Environment (optional)" help="NAME=value, one a line. Keys and passwords belong below." problem={wrongLine && `${wrongLine} is not NAME=value`}>
              {(id, described) => <textarea id={id} aria-describedby={described} class="mono" rows={2} value={wanted.env} spellcheck={false} onInput={(event) => set({ env: event.currentTarget.value })} />}
            </Field>
            {may("admin") && <SecretFields secrets={wanted.secrets} set={(secrets) => set({ secrets })} />}
            <Field label="Grants (optional)" help="Capabilities to grant in addition to what it asks for, one per line: read:fs:/srv/docs, net:api.example.org:443.">{(id, described) => <textarea id={id} aria-describedby={described} class="mono" rows={2} value={wanted.grants} spellcheck={false} onInput={(event) => set({ grants: event.currentTarget.value })} />}</Field>
          </div>
        </details>
        <div class="actions"><Act submits kind="primary" disabled={wanted.source.trim() === "" || !!wrong} act={fetch}>Fetch and review</Act>{wrong && <span class="faint"><Said text={wrong} /></span>}</div>
      </form>
      <p class="faint">A cage fetches it into a quarantine, and you see everything it may do. Nothing is installed before you approve it.</p>
    </Card>
  );
}

// -- a file that is dropped -------------------------------------------------------------------------------

const PIECE = 1.5 * 1024 * 1024; // bytes; less than a body may have, as base64
const ARCHIVE = /\.(zip|mcpb|dxt|tar|tgz|tar\.gz)$/i;

function base64(piece: Uint8Array): string {
  let text = "";
  for (let at = 0; at < piece.length; at += 0x8000) text += String.fromCharCode(...piece.subarray(at, at + 0x8000));
  return btoa(text);
}

async function handOver(file: File, tell: (part: number) => void): Promise<void> {
  const name = file.name.replace(/[^A-Za-z0-9._+-]+/g, "-").replace(/^[.-]+/, "");
  let id: string | undefined;
  let path = "";
  for (let at = 0; at === 0 || at < file.size; at += PIECE) {
    const piece = new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer());
    ({ id, path } = await call("POST /api/v1/uploads", { body: { name, content: base64(piece), ...(id && { id }) } }));
    tell(Math.min(1, (at + PIECE) / Math.max(file.size, 1)));
  }
  look(await call("POST /api/v1/plugins", { body: { source: path, version: null } }));
}

// A script is text that can be read before it is let in.
async function showScript(file: File): Promise<void> {
  const source = await file.text();
  const name = file.name.replace(/\.lua$/i, "").replace(/[^A-Za-z0-9_-]+/g, "-");
  askFirst({
    title: `Add the script ${name}?`,
    yes: "Add it",
    danger: true,
    text: (
      <>
        <p>It sees what is said in your sessions and may change it. It has no access to files or the network. It runs from now on.</p>
        <Code text={source} label="The script" />
      </>
    ),
    act: async () => {
      const made = await call("PUT /api/v1/scripts/{script}", { path: { script: name }, body: { source } });
      note("done", `The script ${made.name} is added.`, made.file);
    },
  });
}

async function take(file: File, tell: (words: string) => void): Promise<void> {
  if (/\.lua$/i.test(file.name)) return showScript(file);
  if (!ARCHIVE.test(file.name)) throw new Error(`${file.name} is neither an archive (.zip, .mcpb, .tar, .tgz) nor a script (.lua).`);
  tell(`, ${bytes(file.size)}`);
  await handOver(file, (part) => tell(`: ${Math.round(part * 100)} %`));
}

// -- servers of other clients ---------------------------------------------------------------------------

type Found = Schemas["McpFound"]["servers"][number];

function takeOver(server: Found): void {
  const kept = server.secrets.filter((one) => one.has_value);
  askFirst({
    title: `Import ${server.name}?`,
    yes: "Fetch and review",
    text: (
      <>
        <Code text={server.source ?? ""} label="Its source" />
        {kept.length > 0 && <p>{`${plural(kept.length, "key")} of the client's file ${kept.length === 1 ? "is" : "are"} sealed as ${kept.length === 1 ? "a secret" : "secrets"}: `}<code><Said text={kept.map((one) => one.name).join(", ")} /></code>. The file stays as it is.</p>}
        {server.dangers.map((one) => <div key={one} class="problem"><Said text={one} /></div>)}
      </>
    ),
    act: async () => look(await call("POST /api/v1/mcp/found/{plugin}", { path: { plugin: server.plugin } })),
  });
}

function FoundRow({ server }: { server: Found }) {
  const unset = server.secrets.filter((one) => !one.has_value);
  return (
    <li>
      <div>
        <strong><Said text={server.name} /></strong> <span class="faint"><Said text={server.client || server.files[0]} /></span> {server.installed && <span class="tag">installed</span>} {server.disabled && <span class="tag">switched off there</span>}
        <div class="faint"><Said text={server.source ?? server.why} /></div>
        {server.instead && <div class="faint">The same server from npm: <code>npm:<Said text={server.instead} /></code></div>}
        {unset.length > 0 && <div class="faint">It needs a secret that is not in the file: <code><Said text={unset.map((one) => one.name).join(", ")} /></code></div>}
      </div>
      {server.source && may("admin") && <Act label={`Import ${server.name}`} act={() => takeOver(server)}>Import…</Act>}
    </li>
  );
}

function OfClients() {
  const [wanted, setWanted] = useState(false);
  const asked = useAsk(() => (wanted ? call("GET /api/v1/mcp/found") : Promise.resolve(null)), [wanted]);
  return (
    <Card title="Servers of other clients" aside={!wanted && <Act act={() => setWanted(true)}>Find them</Act>}>
      {!wanted ? <p class="faint">Claude, Cursor, VS Code and others keep their MCP servers in files. kaged finds them, and runs them in cages.</p> : (
        <Shown asked={asked}>
          {(found) => found === null ? <p class="faint">Looking…</p> : (
            <>
              {found.servers.length === 0 ? <Empty title="No server was found">{found.files.length === 0 ? "No client has a file that the daemon's user can read." : `${plural(found.files.length, "file")} of clients, and no server in them.`}</Empty> : <ul class="refusals">{found.servers.map((one) => <FoundRow key={one.plugin} server={one} />)}</ul>}
              {found.problems.map((one) => <div key={one} class="caution"><Said text={one} /></div>)}
            </>
          )}
        </Shown>
      )}
    </Card>
  );
}

// -- what came with kaged ---------------------------------------------------------------------------------

const OURS: [string, string][] = [
  ["notes", "Notes that agents write, and find by full-text search."],
  ["workspace", "Reads, searches and edits the files of a project, and runs declared programs there."],
  ["memory-markdown", "Agents' memory in markdown files that people can read and edit."],
  ["smart-compactor", "Compacts a context by rules that can be read, without a model, and says why."],
  ["ollama", "Lists, shows and pulls the models of an Ollama server on this machine."],
  ["presets", "Shell presets in a folder, installed where the operator's shells find them."],
  ["echo", "Echoes what it is sent; the smallest complete plugin."],
];

function CameWithUs() {
  const asked = useAsk(async () => new Set((await call("GET /api/v1/plugins")).plugins.map((one) => one.name)), []);
  return (
    <Card title="Included with kaged">
      <ul class="lines">
        {OURS.map(([name, text]) => (
          <li key={name}><strong>{name}</strong> <span class="faint">{text}</span> {asked.value?.has(name) ? <Badge word="installed" /> : <Act kind="plain" label={`Review ${name}`} act={async () => look(await call("POST /api/v1/plugins", { body: { source: name, version: null } }))}>Review…</Act>}</li>
        ))}
      </ul>
    </Card>
  );
}

export function Add() {
  return (
    <>
      <h1>Add a plugin</h1>
      <Drop label="A file with a plugin" accept=".zip,.mcpb,.dxt,.tar,.tgz,.gz,.lua" kinds=".mcpb, .zip, .tar.gz, or a script: .lua" take={take} />
      <FromSource />
      <OfClients />
      <CameWithUs />
      <Card title="Write your own">
        <p>A folder with a manifest, a program and its SDK, in TypeScript, Python, C or bash; <code>kaged plugin dev</code> runs it while you change it.</p>
        <Command text="kaged plugin new my-plugin" />
      </Card>
    </>
  );
}
