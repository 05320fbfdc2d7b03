// Who may come in by a token, and what the daemon keeps secret. A secret can be set here, and never read.
import { useState } from "preact/hooks";
import { call, type Schemas, session } from "../api";
import { useAsk } from "../ask";
import { Act, askFirst, Badge, Card, Code, Empty, Facts, Field, note, Said, Shown, Time } from "../ui";

const SCOPES: Schemas["Scope"][] = ["plugins:read", "plugins:call", "plugins:write", "projects:read", "projects:write", "sessions:read", "sessions:write", "consents:write", "audit:read", "admin"];

function MakeToken({ again }: { again: () => void }) {
  const [name, setName] = useState("");
  const [expires, setExpires] = useState("30d");
  const [scopes, setScopes] = useState<Schemas["Scope"][]>(["plugins:read", "plugins:call"]);
  const [profile, setProfile] = useState("");
  const [made, setMade] = useState<Schemas["TokenMade"] | null>(null);
  const problem = name !== "" && !/^(?!tok_)[A-Za-z0-9._-]{1,64}$/.test(name) ? "1 to 64 letters, digits, dots, dashes or underscores, not beginning with tok_" : null;
  return (
    <Card title="Create a token">
      <div class="filters">
        <Field label="Name" problem={problem}>{(id, described) => <input id={id} aria-describedby={described} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <Field label="Expires" help="A span like 12h or 30d, or a date; empty: never.">{(id, described) => <input id={id} aria-describedby={described} value={expires} onInput={(event) => setExpires(event.currentTarget.value)} />}</Field>
        <Field label="Profile (optional)" help="For MCP clients: it may use only /mcp, and there only what this profile names.">{(id, described) => <input id={id} aria-describedby={described} value={profile} onInput={(event) => setProfile(event.currentTarget.value)} />}</Field>
      </div>
      <fieldset class="checks">
        <legend>What it may do</legend>
        {SCOPES.map((scope) => (
          <label key={scope} class="check"><input type="checkbox" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.currentTarget.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} /> {scope}</label>
        ))}
      </fieldset>
      <div class="actions">
        <Act
          kind="primary"
          disabled={!name || !!problem || scopes.length === 0}
          act={async () => {
            setMade(await call("POST /api/v1/tokens", { body: { name, scopes, expires: expires || null, ...(profile && { profile }) } }));
            setName("");
            again();
          }}
        >
          Create it
        </Act>
      </div>
      {made && <div class="caution" role="status"><strong>This is shown only once. Save it now:</strong><Code text={made.token} label="The token" /><Act act={() => setMade(null)}>I have saved it</Act></div>}
    </Card>
  );
}

function Tokens() {
  const asked = useAsk(() => call("GET /api/v1/tokens"), [], { on: (one) => (one.event ?? "").startsWith("auth.token") });
  return (
    <>
      <Shown asked={asked}>
        {({ tokens }) => (
          <Card title="API tokens">
            {tokens.length === 0 ? <Empty title="No tokens">Programs that use the API over TCP need one.</Empty> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Tokens">
                <table>
                  <thead><tr><th scope="col">Name</th><th scope="col">May</th><th scope="col">Last used</th><th scope="col">Expires</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                  <tbody>
                    {tokens.map((one) => (
                      <tr key={one.id}>
                        <td><strong><Said text={one.name} /></strong></td>
                        <td>{one.profile ? <>/mcp, by the profile <Said text={one.profile} /></> : one.scopes.join(", ")}</td>
                        <td><Time at={one.last_used_at} /></td>
                        <td>{one.expired ? <Badge word="failed" /> : one.expires_at ? <Time at={one.expires_at} /> : "never"}</td>
                        <td><Act kind="plain" label={`Revoke ${one.name}`} act={() => askFirst({ title: `Revoke ${one.name}?`, yes: "Revoke", danger: true, text: <p>Programs that use it lose access.</p>, act: () => call("DELETE /api/v1/tokens/{id}", { path: { id: one.id } }).then(asked.again) })}>Revoke…</Act></td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </Card>
        )}
      </Shown>
      <MakeToken again={asked.again} />
    </>
  );
}

function SetSecret({ again }: { again: () => void }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  return (
    <Card title="Set a secret">
      <div class="filters">
        <Field label="Name">{(id) => <input id={id} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <Field label="Value" help="It is sealed on the daemon's machine, and cannot be read back.">{(id, described) => <input id={id} aria-describedby={described} type="password" autocomplete="new-password" value={value} onInput={(event) => setValue(event.currentTarget.value)} />}</Field>
      </div>
      <div class="actions">
        <Act
          kind="primary"
          disabled={!name || !value}
          act={async () => {
            await call("PUT /api/v1/secrets/{secret}", { path: { secret: name }, body: { value } });
            note("done", `${name} is set. local.toml names it as "secret:${name}".`);
            setName("");
            setValue("");
            again();
          }}
        >
          Set it
        </Act>
      </div>
    </Card>
  );
}

function Secrets() {
  const asked = useAsk(() => call("GET /api/v1/secrets"), [], { on: (one) => (one.event ?? "").startsWith("secret.") });
  return (
    <>
      <Shown asked={asked}>
        {({ secrets }) => (
          <Card title="Secrets">
            {secrets.length === 0 ? <Empty title="No secrets">Secrets of plugins and providers, such as API keys, are stored sealed.</Empty> : (
              <ul class="lines">
                {secrets.map((one) => (
                  <li key={one.name}>
                    <strong><Said text={one.name} /></strong> <span class="faint">{one.source}{one.set_at && <>, set <Time at={one.set_at} /></>}{one.used_by.length > 0 && `; used by ${one.used_by.join(", ")}`}{!one.redacted && one.source !== "missing" && "; too short to be hidden where it is shown"}</span>
                    {one.source === "sealed" && <Act kind="plain" label={`Remove ${one.name}`} act={() => askFirst({ title: `Remove ${one.name}?`, yes: "Remove", danger: true, text: <p>{one.used_by.length ? `It is used by ${one.used_by.join(", ")}.` : "Nobody uses it."}</p>, act: () => call("DELETE /api/v1/secrets/{secret}", { path: { secret: one.name } }).then(asked.again) })}>Remove…</Act>}
                  </li>
                ))}
              </ul>
            )}
          </Card>
        )}
      </Shown>
      <SetSecret again={asked.again} />
    </>
  );
}

export function Access() {
  const who = session.value;
  return (
    <>
      <h1>Access</h1>
      <Card title="You" aside={who?.via === "session" && <Act act={async () => { await call("DELETE /api/v1/session"); session.value = null; }}>Log out</Act>}>
        <Facts rows={[["Operator", <Said text={who?.operator ?? "unknown"} />], ["Signed in by", who?.via ?? "–"], ["Until", <Time at={who?.expires_at} />], ["May", who?.scopes.join(", ") ?? ""]]} />
      </Card>
      <Tokens />
      <Secrets />
    </>
  );
}
