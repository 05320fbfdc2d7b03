// A plugin from a source. Nothing of it runs before the operator has seen what it may do.
import { useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { Act, Card, Command, Field, Said } from "../ui";

const words = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/;

interface Wanted {
  source: string;
  version: string;
  name: string;
  args: string;
  env: string;
  grants: string;
}
function bodyOf(wanted: Wanted): Schemas["Source"] {
  const env = Object.fromEntries(words(wanted.env).map((line) => VARIABLE.exec(line)!.slice(1, 3)));
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

export function Add() {
  const [wanted, setWanted] = useState<Wanted>({ source: "", version: "", name: "", args: "", env: "", grants: "" });
  const set = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  const wrong = words(wanted.env).find((line) => !VARIABLE.test(line));
  const fetch = async () => {
    const consent = await call("POST /api/v1/plugins", { body: bodyOf(wanted) });
    location.hash = `#/consents/${consent.id}`;
  };
  return (
    <>
      <h1>Add a plugin</h1>
      <Card title="From a source">
        <form class="stack" onSubmit={(event) => event.preventDefault()}>
          <Field label="Source" help="An absolute path of a folder or an archive (.mcpb, too) on the daemon's machine, the URL of a git repository, or npm:PACKAGE for an MCP server of npm.">
            {(id, described) => <input id={id} aria-describedby={described} class="mono" value={wanted.source} autocomplete="off" spellcheck={false} placeholder="npm:@modelcontextprotocol/server-filesystem" onInput={(event) => set({ source: event.currentTarget.value })} />}
          </Field>
          <Field label="Version (optional)" help="Of a git repository a tag; of a package its version, a range, or a tag.">
            {(id, described) => <input id={id} aria-describedby={described} class="mono" value={wanted.version} autocomplete="off" onInput={(event) => set({ version: event.currentTarget.value })} />}
          </Field>
          <details>
            <summary>For an MCP server, and what you add of your own</summary>
            <div class="stack">
              <Field label="Name (optional)" help="What the plugin is called here.">{(id, described) => <input id={id} aria-describedby={described} value={wanted.name} autocomplete="off" onInput={(event) => set({ name: event.currentTarget.value })} />}</Field>
              <Field label="Arguments (optional)" help="What its program is started with, one a line.">{(id, described) => <textarea id={id} aria-describedby={described} class="mono" rows={2} value={wanted.args} onInput={(event) => set({ args: event.currentTarget.value })} />}</Field>
              <Field label="Environment (optional)" help={<>NAME=value, one a line. A value may be <code>{"${secret:NAME}"}</code>, which <a href="#/access">Access</a> sets.</>} problem={wrong && `${wrong} is not NAME=value`}>
                {(id, described) => <textarea id={id} aria-describedby={described} class="mono" rows={2} value={wanted.env} spellcheck={false} onInput={(event) => set({ env: event.currentTarget.value })} />}
              </Field>
              <Field label="Grants (optional)" help="Capabilities that you give it besides what it asks for, one a line: read:fs:/srv/docs, net:api.example.org:443.">{(id, described) => <textarea id={id} aria-describedby={described} class="mono" rows={2} value={wanted.grants} spellcheck={false} onInput={(event) => set({ grants: event.currentTarget.value })} />}</Field>
            </div>
          </details>
          <div class="actions"><Act submits kind="primary" disabled={wanted.source.trim() === "" || !!wrong} act={fetch}>Fetch it, to look at it</Act>{wrong && <span class="faint"><Said text={wrong} /></span>}</div>
        </form>
        <p class="faint">It is fetched into a quarantine by a cage, and shown with all that it may do. It is installed by your yes, and not before.</p>
      </Card>
      <Card title="Came with kaged">
        <p>These are installed by their names: <code>notes</code>, <code>workspace</code>, <code>memory-markdown</code>, <code>smart-compactor</code>, <code>ollama</code>, <code>presets</code>.</p>
        <Command text="kaged plugin install notes" />
      </Card>
      <Card title="Write your own">
        <p>A folder with a manifest, a program and its SDK, in TypeScript, Python, C or bash; <code>kaged plugin dev</code> runs it while you change it.</p>
        <Command text="kaged plugin new my-plugin" />
      </Card>
    </>
  );
}
