// Orchestrators: packages of an org put together with a model; what runs of them, and a chat to try.
import { useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { type Setting, SettingsForm } from "../settings-form";
import { Act, askFirst, Badge, Card, Empty, Facts, Field, note, noteError, Said, Shown, Time } from "../ui";
import { at, Place, usePlaces } from "./catalog";
import { Chat } from "./orchestrator-chat";
import { catalogEvents } from "./orgs";

export type Orchestrator = Schemas["Orchestrator"];
type Attached = Orchestrator["plugin_settings"][string];
const pathOf = (one: Orchestrator) => ({ org_id: one.org_id, instance_id: one.instance_id });
const stateOf = (one: Orchestrator): string => (one.is_ready ? (one.stale ? "stale" : "ready") : one.load_error ? "failed" : "not_loaded");
const FRAMEWORKS: Schemas["OrchestratorWanted"]["framework_type"][] = ["langgraph", "openai_agents", "google_adk"];
const TIERS: Record<Orchestrator["tier"], string> = { demand: "at its first chat, until it rests for long enough", hot: "when the daemon starts" };

// -- which model ---------------------------------------------------------------------------------------------

type Config = Orchestrator["config"];
interface ModelProps {
  org: string;
  config: Config;
  set: (config: Config) => void;
}
function ModelFields({ org, config, set }: ModelProps) {
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/llm-configs", { path: { org_id: org } }), [org], { on: catalogEvents });
  const models = asked.value?.llm_configs ?? [];
  const chosen = models.find((one) => one.id === config.default_llm_config_id || one.name === config.default_llm_config_id);
  return (
    <>
      {models.length > 0 && (
        <Field label="Model">
          {(id) => (
            <select id={id} value={chosen?.id ?? ""} onChange={(event) => set({ default_llm_config_id: event.currentTarget.value || null, model: null })}>
              <option value="">One of the operator's</option>
              {models.map((one) => <option key={one.id} value={one.id}>{`${one.name} (${one.provider} ${one.model})`}</option>)}
            </select>
          )}
        </Field>
      )}
      {!chosen && <Field label="Model of the operator's" help="Its alias in local.toml.">{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" value={config.model ?? ""} onInput={(event) => set({ default_llm_config_id: null, model: event.currentTarget.value.trim() || null })} />}</Field>}
    </>
  );
}
const modelOf = (config: Config): Config => Object.fromEntries(Object.entries({ default_llm_config_id: config.default_llm_config_id, model: config.model }).filter(([, value]) => value != null));

function TierField({ tier, set }: { tier: Orchestrator["tier"]; set: (tier: Orchestrator["tier"]) => void }) {
  return (
    <Field label="Loaded">
      {(id) => <select id={id} value={tier} onChange={(event) => set(event.currentTarget.value as Orchestrator["tier"])}>{Object.entries(TIERS).map(([key, words]) => <option key={key} value={key}>{words}</option>)}</select>}
    </Field>
  );
}

// -- all of an org ---------------------------------------------------------------------------------------------

type Wanted = Schemas["OrchestratorWanted"] & { tier: Orchestrator["tier"]; whoami: string; config: Config };
const NOTHING: Wanted = { name: "", framework_type: "langgraph", mode: "supervisor", active_plugin_ids: [], tier: "demand", whoami: "", config: {} };

function PackageChecks({ org, chosen, set }: { org: string; chosen: string[]; set: (pids: string[]) => void }) {
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/plugins", { path: { org_id: org } }), [org], { on: catalogEvents });
  return (
    <fieldset class="checks">
      <legend>Packages</legend>
      <Shown asked={asked}>
        {({ plugins }) =>
          plugins.every((one) => !one.enabled) ? <p class="faint">There are none yet: <a href={at("catalog", org)}>upload one</a>.</p> : plugins.filter((one) => one.enabled).map((one) => (
            <label key={one.id} class="check"><input type="checkbox" checked={chosen.includes(one.pid)} onChange={(event) => set(event.currentTarget.checked ? [...chosen, one.pid] : chosen.filter((pid) => pid !== one.pid))} /> <span><Said text={one.name} /> <Said class="faint" text={one.pid} /></span></label>
          ))
        }
      </Shown>
    </fieldset>
  );
}

function Create({ org }: { org: string }) {
  const [wanted, setWanted] = useState(NOTHING);
  const set = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  const length = [...wanted.name.trim()].length;
  const wrong = wanted.name !== "" && (length < 5 || length > 200) ? "5 to 200 characters" : null;
  const create = async () => {
    const made = await call("POST /api/orgs/{org_id}/orchestrators", { path: { org_id: org }, body: { ...wanted, name: wanted.name.trim(), whoami: wanted.whoami.trim() || null, config: modelOf(wanted.config) } });
    location.hash = at("orchestrators", org, made.instance_id);
  };
  return (
    <Card title="Create an orchestrator">
      <form class="stack" onSubmit={(event) => event.preventDefault()}>
        <div class="filters">
          <Field label="Name" problem={wrong}>{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" value={wanted.name} onInput={(event) => set({ name: event.currentTarget.value })} />}</Field>
          <Field label="Mode" help={wanted.mode === "grounded" ? "A conversation is about one resource." : "The model hands work to packages that are agents."}>
            {(id, described) => <select id={id} aria-describedby={described} value={wanted.mode} onChange={(event) => set({ mode: event.currentTarget.value })}><option>supervisor</option><option>grounded</option></select>}
          </Field>
          <Field label="Framework" help="Kept and shown; the engine is the same for all.">
            {(id, described) => <select id={id} aria-describedby={described} value={wanted.framework_type} onChange={(event) => set({ framework_type: event.currentTarget.value as Wanted["framework_type"] })}>{FRAMEWORKS.map((one) => <option key={one}>{one}</option>)}</select>}
          </Field>
          <TierField tier={wanted.tier} set={(tier) => set({ tier })} />
          <ModelFields org={org} config={wanted.config} set={(config) => set({ config })} />
        </div>
        <PackageChecks org={org} chosen={wanted.active_plugin_ids} set={(active_plugin_ids) => set({ active_plugin_ids })} />
        <Whoami text={wanted.whoami} set={(whoami) => set({ whoami })} />
        <div class="actions"><Act submits kind="primary" disabled={!wanted.name || !!wrong || wanted.active_plugin_ids.length === 0} act={create}>Create</Act></div>
      </form>
    </Card>
  );
}

const Whoami = ({ text, set }: { text: string; set: (text: string) => void }) => (
  <Field label="Who it is (optional)" help="What the orchestrator is told of itself.">{(id, described) => <textarea id={id} aria-describedby={described} rows={3} value={text} onInput={(event) => set(event.currentTarget.value)} />}</Field>
);

function OfOrg({ org }: { org: string }) {
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/orchestrators", { path: { org_id: org } }), [org], { on: catalogEvents, every: 5000 });
  return (
    <>
      <Card>
        <Shown asked={asked}>
          {({ orchestrators }) => orchestrators.length === 0 ? <Empty title="No orchestrators">Packages, a model and a few words make one. Create it below.</Empty> : (
            <ul class="waiting">
              {orchestrators.map((one) => (
                <li key={one.instance_id}>
                  <a href={at("orchestrators", org, one.instance_id)}>
                    <span class="what"><strong><Said text={one.name} /></strong> <span class="tag">{one.mode}</span> <span class="tag">{one.tier}</span><span class="faint block"><Said text={one.active_plugin_ids.join(", ")} /></span>{one.load_error && <span class="bad block"><Said text={one.load_error} /></span>}</span>
                    <Badge word={stateOf(one)} />
                  </a>
                </li>
              ))}
            </ul>
          )}
        </Shown>
      </Card>
      <Create org={org} />
    </>
  );
}

export function Orchestrators({ org }: { org: string }) {
  const places = usePlaces();
  return (
    <>
      <h1>Orchestrators</h1>
      <Shown asked={places}>
        {(orgs) => {
          const chosen = org || orgs[0]?.org_id;
          return chosen === undefined ? <Empty title="No orgs">Orchestrators belong to orgs. <a href="#/orgs">Create one</a> first.</Empty> : <><Place orgs={orgs} place={chosen} view="orchestrators" /><OfOrg key={chosen} org={chosen} /></>;
        }}
      </Shown>
    </>
  );
}

// -- its packages ------------------------------------------------------------------------------------------------

interface PartProps {
  one: Orchestrator;
  again: () => void;
}

// The settings of the version that would be loaded, with what this orchestrator has of its own.
function settingsOf(attached: Attached, schema: Schemas["PackageValues"]["settings"]): Setting[] {
  const own = new Map(attached.settings.map((each) => [each.key, each.value]));
  return schema.map((each) => {
    const preset = each.is_set ? each.value : each.default;
    return { ...each, default: preset, value: own.get(each.key) ?? null, is_set: own.has(each.key) };
  });
}

function AttachedRow({ one, attached, again }: PartProps & { attached: Attached }) {
  const path = { org_id: one.org_id, pid: attached.pid };
  const asked = useAsk(async () => {
    const [{ plugins }, { settings }] = await Promise.all([
      call("GET /api/orgs/{org_id}/plugins/{pid}/versions", { path }),
      call("GET /api/orgs/{org_id}/plugins/{pid}/settings", { path, query: attached.version ? { version: attached.version } : {} }),
    ]);
    return { versions: plugins.filter((each) => each.enabled || each.version === attached.pinned), settings };
  }, [one.org_id, attached.pid, attached.version], { on: catalogEvents });
  const hold = (version: string | null) => call("POST /api/orgs/{org_id}/orchestrators/{instance_id}/plugin-settings/activate", { path: pathOf(one), body: { pid: attached.pid, version } }).then(again);
  const save = (settings: Record<string, unknown>) => call("PATCH /api/orgs/{org_id}/orchestrators/{instance_id}/plugin-settings", { path: pathOf(one), body: { plugin_settings: { [attached.pid]: { settings } } } }).then(again);
  const detach = () => call("PATCH /api/orgs/{org_id}/orchestrators/{instance_id}", { path: pathOf(one), body: { active_plugin_ids: one.active_plugin_ids.filter((pid) => pid.split("@")[0] !== attached.pid) } }).then(again);
  return (
    <details class="tool">
      <summary><strong><Said text={attached.name ?? attached.pid} /></strong> <Said class="faint" text={attached.version} /> {attached.pinned && <span class="tag">held to it</span>} <span class="words"><Said text={attached.pid} /></span></summary>
      <Shown asked={asked}>
        {({ versions, settings }) => (
          <div class="stack">
            <Field label="Version">
              {(id) => (
                <select id={id} value={attached.pinned ?? ""} onChange={(event) => hold(event.currentTarget.value || null).catch(noteError)}>
                  <option value="">The latest at each load</option>
                  {[...new Set(versions.map((each) => each.version))].map((each) => <option key={each}>{each}</option>)}
                </select>
              )}
            </Field>
            <p class="faint">Its settings here, over those that <a href={at("catalog", one.org_id, attached.pid)}>the org has set</a>:</p>
            <SettingsForm settings={settingsOf(attached, settings)} save={save} />
          </div>
        )}
      </Shown>
      <div class="actions"><Act disabled={one.active_plugin_ids.length < 2} label={`Detach the package ${attached.pid}`} act={detach}>Detach the package</Act></div>
    </details>
  );
}

function Attach({ one, again }: PartProps) {
  const [chosen, setChosen] = useState("");
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/plugins", { path: { org_id: one.org_id } }), [one.org_id], { on: catalogEvents });
  const there = new Set(one.active_plugin_ids.map((pid) => pid.split("@")[0]));
  const free = asked.value?.plugins.filter((each) => each.enabled && !there.has(each.pid)) ?? [];
  if (free.length === 0) return null;
  const attach = () => call("PATCH /api/orgs/{org_id}/orchestrators/{instance_id}", { path: pathOf(one), body: { active_plugin_ids: [...one.active_plugin_ids, chosen] } }).then(() => { setChosen(""); again(); });
  return (
    <div class="line">
      <Field label="Attach a package">
        {(id) => <select id={id} value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}><option value="">–</option>{free.map((each) => <option key={each.id} value={each.pid}>{`${each.name} (${each.pid})`}</option>)}</select>}
      </Field>
      <Act disabled={!chosen} act={attach}>Attach</Act>
    </div>
  );
}

// -- what it is ----------------------------------------------------------------------------------------------------

function Change({ one, again }: PartProps) {
  const [tier, setTier] = useState(one.tier);
  const [whoami, setWhoami] = useState(one.whoami ?? "");
  const [config, setConfig] = useState<Config>(one.config);
  const save = async () => {
    await call("PATCH /api/orgs/{org_id}/orchestrators/{instance_id}", { path: pathOf(one), body: { tier, whoami: whoami.trim() || null, config: { default_llm_config_id: config.default_llm_config_id ?? null, model: config.model ?? null } } });
    note("done", "Saved. It counts from the next load on.");
    again();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <div class="filters"><ModelFields org={one.org_id} config={config} set={setConfig} /><TierField tier={tier} set={setTier} /></div>
      <Whoami text={whoami} set={setWhoami} />
      <div class="actions"><Act submits act={save}>Save</Act></div>
    </form>
  );
}

function Actions({ one, again }: PartProps) {
  const path = pathOf(one);
  const load = () => call(one.is_ready ? "POST /api/orgs/{org_id}/orchestrators/{instance_id}/reload" : "POST /api/orgs/{org_id}/orchestrators/{instance_id}/load", { path }).finally(again);
  return (
    <div class="actions">
      <Act kind="primary" act={load}>{one.is_ready ? "Reload" : "Load"}</Act>
      {one.is_ready && <Act act={() => call("POST /api/orgs/{org_id}/orchestrators/{instance_id}/unload", { path }).then(again)}>Unload</Act>}
      <Act
        kind="plain"
        act={() => askFirst({ title: `Delete ${one.name}?`, danger: true, yes: "Delete", text: <p>What runs of it ends, and nobody can talk to it any more.</p>, act: () => call("DELETE /api/orgs/{org_id}/orchestrators/{instance_id}", { path }).then(() => { location.hash = at("orchestrators", one.org_id); }) })}
      >
        Delete…
      </Act>
    </div>
  );
}

export function OrchestratorView({ org, id }: { org: string; id: string }) {
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/orchestrators/{instance_id}", { path: { org_id: org, instance_id: id } }), [org, id], { on: catalogEvents, every: 5000 });
  return (
    <>
      <p class="crumb"><a href={at("orchestrators", org)}>Orchestrators</a> /</p>
      <Shown asked={asked}>
        {(one) => (
          <>
            <div class="head">
              <div><h1><Said text={one.name} /> <Badge word={stateOf(one)} /></h1><p class="lead">{one.mode}, loaded {TIERS[one.tier]}</p></div>
              <Actions one={one} again={asked.again} />
            </div>
            {one.load_error && <div class="problem" role="alert">It could not be loaded: <Said text={one.load_error} /></div>}
            {one.stale && <div class="caution">What runs is not what was saved last. Reload it, and calls that are under way end on what runs now.</div>}
            <Card title="Packages">
              {Object.values(one.plugin_settings).map((each) => <AttachedRow key={each.pid} one={one} attached={each} again={asked.again} />)}
              <Attach one={one} again={asked.again} />
            </Card>
            <Card title="Model and words"><Change one={one} again={asked.again} /></Card>
            <Card title="Facts">
              <Facts rows={[["Id", <code>{one.instance_id}</code>], ["Framework", <><Said text={one.framework_type} /> (runs on <Said text={one.engine} />)</>], ["Created", <><Time at={one.created_at} />{one.created_by && <> by <Said text={one.created_by} /></>}</>], ["Changed", <Time at={one.updated_at} />]]} />
            </Card>
            <Chat one={one} again={asked.again} />
          </>
        )}
      </Shown>
    </>
  );
}
