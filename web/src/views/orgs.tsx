// Orgs: who is in them, and what they may have.
import { useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, askFirst, Badge, Card, Empty, Facts, Field, note, Said, Shown, Time } from "../ui";
import { count } from "../words";
import { Models } from "./org-models";

type Org = Schemas["Org"];
const NAME = /^[a-z0-9][a-z0-9._-]{0,34}$/;
const USER = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,34}$/;
export const catalogEvents = (one: { type: string; event?: string }) => one.type === "audit" && (one.event ?? "").startsWith("catalog.");

// -- all of them ------------------------------------------------------------------------------------

function Create({ again }: { again: () => void }) {
  const [name, setName] = useState("");
  const [domain, setDomain] = useState("");
  const wrong = name !== "" && !NAME.test(name) ? "1 to 35 lower-case letters, digits, dots, dashes or underscores" : null;
  const create = async () => {
    const made = await call("POST /api/admin/orgs", { body: { name, ...(domain.trim() && { domain: domain.trim() }) } });
    again();
    location.hash = `#/orgs/${encodeURIComponent(made.org_id)}`;
  };
  return (
    <Card title="Create an org">
      <form class="stack" onSubmit={(event) => event.preventDefault()}>
        <div class="filters">
          <Field label="Name" problem={wrong}>{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
          <Field label="Domain (optional)" help="Packages below it are this org's: of example.com, those below com.example.">{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" placeholder="example.com" value={domain} onInput={(event) => setDomain(event.currentTarget.value)} />}</Field>
        </div>
        <div class="actions"><Act submits kind="primary" disabled={!name || !!wrong} act={create}>Create</Act></div>
      </form>
    </Card>
  );
}

export function Orgs() {
  const asked = useAsk(() => call("GET /api/admin/orgs"), [], { on: catalogEvents });
  return (
    <>
      <h1>Orgs</h1>
      <Shown asked={asked}>
        {({ orgs }) => {
          const there = orgs.filter((one) => !one.is_deleted);
          return (
            <Card>
              {there.length === 0 ? <Empty title="No orgs">People who share packages and orchestrators are an org, with members, roles and quotas. Create one below.</Empty> : (
                <ul class="waiting">
                  {there.map((one) => (
                    <li key={one.org_id}>
                      <a href={`#/orgs/${encodeURIComponent(one.org_id)}`}>
                        <span class="what"><strong><Said text={one.display_name ?? one.name} /></strong> <Said class="faint" text={one.domain} /><span class="faint block"><Said text={one.description} /></span></span>
                        <Badge word={one.status} />
                      </a>
                    </li>
                  ))}
                </ul>
              )}
            </Card>
          );
        }}
      </Shown>
      <Create again={asked.again} />
    </>
  );
}

// -- one ----------------------------------------------------------------------------------------------

function AddMember({ org, again }: { org: Org; again: () => void }) {
  const [user, setUser] = useState("");
  const [admin, setAdmin] = useState(false);
  const wrong = user !== "" && !USER.test(user) ? "1 to 35 letters, digits, or . _ @ + - after the first" : null;
  const add = async () => {
    await call("POST /api/orgs/{org_id}/members", { path: { org_id: org.org_id }, body: { user, is_admin: admin } });
    note("done", `${user} is a member of ${org.name}.`);
    setUser("");
    again();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <Field label="Add a member" help="A user's name or id; a new name becomes a new user." problem={wrong}>{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" value={user} onInput={(event) => setUser(event.currentTarget.value)} />}</Field>
      <label class="check"><input type="checkbox" checked={admin} onChange={(event) => setAdmin(event.currentTarget.checked)} /> As an admin of the org</label>
      <div class="actions"><Act submits kind="primary" disabled={!user || !!wrong} act={add}>Add</Act></div>
    </form>
  );
}

function Members({ org }: { org: Org }) {
  const org_id = org.org_id;
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/users", { path: { org_id } }), [org_id], { on: catalogEvents });
  const remove = (member: Schemas["Member"]) =>
    askFirst({
      title: `Remove ${member.name} from ${org.name}?`,
      danger: true,
      yes: "Remove",
      text: <p>The user stays, and can be added again.</p>,
      act: () => call("DELETE /api/orgs/{org_id}/users/{user_id}", { path: { org_id, user_id: member.user_id } }).then(asked.again),
    });
  return (
    <Card title="Members">
      <Shown asked={asked}>
        {({ users }) =>
          users.length === 0 ? <Empty title="No members">Whoever is added here can use what the org has.</Empty> : (
            <ul class="refusals">
              {users.map((one) => (
                <li key={one.user_id}>
                  <div><strong><Said text={one.name} /></strong> <Said class="faint" text={one.email} /> {one.is_admin && <span class="tag">admin</span>}<div class="faint">since <Time at={one.created_at} /></div></div>
                  <div class="actions">
                    <Act kind="plain" label={`${one.name}: ${one.is_admin ? "no longer an admin" : "make an admin"}`} act={() => call("PATCH /api/orgs/{org_id}/users/{user_id}/membership", { path: { org_id, user_id: one.user_id }, body: { is_admin: !one.is_admin } }).then(asked.again)}>{one.is_admin ? "No longer an admin" : "Make an admin"}</Act>
                    <Act kind="plain" label={`Remove ${one.name}`} act={() => remove(one)}>Remove…</Act>
                  </div>
                </li>
              ))}
            </ul>
          )
        }
      </Shown>
      <AddMember org={org} again={asked.again} />
    </Card>
  );
}

const QUOTAS: Record<string, string> = { max_members: "Members", max_packages: "Packages", max_orchestrators: "Orchestrators", rate_limit_rpm: "Requests a minute" };

function Quota({ quota }: { quota: Schemas["OrgQuota"] }) {
  const bound = (name: string) => (quota.quota as Record<string, number | null> | null)?.[name];
  return (
    <Facts
      rows={Object.entries(QUOTAS).map(([name, words]) => {
        const most = bound(name);
        const used = quota.used[name.replace("max_", "")];
        return [words, `${used === undefined ? "" : `${count(used)} of `}${most == null || most < 0 ? "any number" : `at most ${count(most)}`}`];
      })}
    />
  );
}

export function OrgView({ id }: { id: string }) {
  const path = { org_id: id };
  const asked = useAsk(async () => {
    const [org, quota] = await Promise.all([call("GET /api/admin/orgs/{org_id}", { path }), call("GET /api/admin/orgs/{org_id}/quota", { path })]);
    return { org, quota };
  }, [id], { on: catalogEvents });
  const change = (body: Schemas["OrgChange"]) => call("PATCH /api/admin/orgs/{org_id}", { path, body }).then(asked.again);
  return (
    <>
      <p class="crumb"><a href="#/orgs">Orgs</a> /</p>
      <Shown asked={asked}>
        {({ org, quota }) => (
          <>
            <div class="head">
              <div>
                <h1><Said text={org.display_name ?? org.name} /> <Badge word={org.is_deleted ? "removed" : org.status} /></h1>
                <p class="lead"><Said text={org.description} /></p>
              </div>
              <div class="actions">
                <a href={`#/catalog/${encodeURIComponent(org.org_id)}`}>Packages</a>
                <a href={`#/orchestrators/${encodeURIComponent(org.org_id)}`}>Orchestrators</a>
                <Act act={() => change({ status: org.status === "active" ? "inactive" : "active" })}>{org.status === "active" ? "Deactivate" : "Activate"}</Act>
                {!org.is_deleted && (
                  <Act
                    kind="plain"
                    act={() => askFirst({ title: `Delete ${org.name}?`, danger: true, yes: "Delete", text: <p>Its members lose what they have through it.</p>, act: () => call("PATCH /api/admin/orgs/{org_id}", { path, body: { is_deleted: true } }).then(() => { location.hash = "#/orgs"; }) })}
                  >
                    Delete…
                  </Act>
                )}
              </div>
            </div>
            <Members org={org} />
            <Models org={org.org_id} />
            <Card title="What it may have"><Quota quota={quota} /></Card>
            <Card title="Facts">
              <Facts rows={[["Name", <Said text={org.name} />], ["Id", <code><Said text={org.org_id} /></code>], ["Domain", org.domain ? <Said text={org.domain} /> : "none"], ["Website", org.website ? <Said text={org.website} /> : "none"], ["Contact", org.contact_email ? <Said text={org.contact_email} /> : "none"], ["Created", <Time at={org.created_at} />]]} />
            </Card>
          </>
        )}
      </Shown>
    </>
  );
}
