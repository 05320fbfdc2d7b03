// The catalog: packages of the system and of orgs, their versions, what is set of them and what they may reach.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Schemas, upload } from "../api";
import { useAsk } from "../ask";
import { isMissing, SettingsForm } from "../settings-form";
import { Act, askFirst, Badge, Card, Drop, Empty, Facts, Field, note, Said, Shown, Time } from "../ui";
import { bytes, plural } from "../words";
import { catalogEvents } from "./orgs";

type Package = Schemas["Package"];
export const SYSTEM = "system"; // where an org's id could be
const ROWS_MAX = 200;
export const at = (...words: string[]): string => `#/${words.map(encodeURIComponent).join("/")}`;

// -- whose -----------------------------------------------------------------------------------------------

export const usePlaces = () => useAsk(async () => (await call("GET /api/admin/orgs")).orgs.filter((one) => !one.is_deleted), [], { on: catalogEvents });

export function Place({ orgs, place, view, system }: { orgs: Schemas["Org"][]; place: string; view: string; system?: boolean }) {
  return (
    <div class="line">
      <Field label="Whose">
        {(id) => (
          <select id={id} value={place} onChange={(event) => { location.hash = at(view, event.currentTarget.value); }}>
            {system && <option value={SYSTEM}>The system, for all orgs</option>}
            {orgs.map((one) => <option key={one.org_id} value={one.org_id}>{one.name}</option>)}
          </select>
        )}
      </Field>
      {place !== SYSTEM && <a href={at("orgs", place)}>Members</a>}
      {place !== SYSTEM && (view === "catalog" ? <a href={at("orchestrators", place)}>Orchestrators</a> : <a href={at("catalog", place)}>Packages</a>)}
    </div>
  );
}

// -- logos -----------------------------------------------------------------------------------------------

const LOGO = /^data:(image\/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/=]+)$/;
const LOGO_PX = 96;

async function paint(canvas: HTMLCanvasElement, url: string): Promise<void> {
  const [, type, data] = LOGO.exec(url) ?? [];
  const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], { type }));
  const scale = LOGO_PX / Math.max(picture.width, picture.height);
  const [width, height] = [picture.width * scale, picture.height * scale];
  canvas.getContext("2d")!.drawImage(picture, (LOGO_PX - width) / 2, (LOGO_PX - height) / 2, width, height);
  picture.close();
}
// Drawn, since the page loads no image but its own; without one, or one that is broken, a letter.
function Logo({ one }: { one: Package }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drawn, setDrawn] = useState(false);
  useEffect(() => {
    setDrawn(false);
    if (one.logo_image) paint(canvas.current!, one.logo_image).then(() => setDrawn(true), () => undefined);
  }, [one.logo_image]);
  return (
    <span class="logo" aria-hidden="true">
      <canvas ref={canvas} width={LOGO_PX} height={LOGO_PX} hidden={!drawn} />
      {!drawn && <Said text={[...one.name][0]} />}
    </span>
  );
}

// -- all packages ------------------------------------------------------------------------------------------

async function send(place: string, file: File, tell: (words: string) => void): Promise<void> {
  const progress = (part: number) => tell(part < 1 ? `: ${Math.round(part * 100)} %` : ": it is opened and looked at in a cage…");
  tell(`, ${bytes(file.size)}`);
  const made = place === SYSTEM ? await upload("POST /api/admin/plugins/upload", {}, file, progress) : await upload("POST /api/orgs/{org_id}/plugins/upload", { org_id: place }, file, progress);
  note("done", `${made.pid} ${made.version} is in the catalog.`, made.warnings.join("\n"));
  location.hash = at("catalog", place, made.pid);
}

function Tags({ one }: { one: Package }) {
  const tags = new Set([one.tag ?? "", ...one.capabilities].filter(Boolean));
  return <span class="chips">{[...tags].map((tag) => <span key={tag} class="tag"><Said text={tag} /></span>)}</span>;
}

function PackageRow({ one, place }: { one: Package; place: string }) {
  return (
    <li>
      <a href={at("catalog", place, one.pid)}>
        <Logo one={one} />
        <span class="what"><strong><Said text={one.name} /></strong> <Said class="faint" text={one.version} /><span class="faint block"><Said text={one.description} /></span><Said class="faint mono" text={one.pid} /><Tags one={one} /></span>
        {place !== SYSTEM && <span class="tag">{one.source === "org" ? "the org's" : "the system's"}</span>}
        <Badge word={one.enabled ? "enabled" : "disabled"} />
      </a>
    </li>
  );
}

const fits = (one: Package, wanted: string): boolean => [one.pid, one.name, one.description, one.tag ?? "", ...one.capabilities].some((text) => text.toLowerCase().includes(wanted.trim().toLowerCase()));

function Packages({ packages, place }: { packages: Package[]; place: string }) {
  const [wanted, setWanted] = useState("");
  if (packages.length === 0) return <Empty title="No packages">Drop a .zip with a plugin.py or a kaged-plugin.yaml, or an .mcpb bundle, above.</Empty>;
  const found = packages.filter((one) => fits(one, wanted));
  return (
    <>
      {packages.length > 8 && <Field label="Find" help={plural(found.length, "package")}>{(id, described) => <input id={id} aria-describedby={described} type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />}</Field>}
      <ul class="waiting">{found.slice(0, ROWS_MAX).map((one) => <PackageRow key={one.id} one={one} place={place} />)}</ul>
      {found.length > ROWS_MAX && <p class="faint">{`${plural(found.length - ROWS_MAX, "more package")}: say what you look for.`}</p>}
    </>
  );
}

export function Catalog({ place }: { place: string }) {
  const places = usePlaces();
  const asked = useAsk(() => (place === SYSTEM ? call("GET /api/admin/plugins") : call("GET /api/orgs/{org_id}/plugins", { path: { org_id: place } })), [place], { on: catalogEvents });
  return (
    <>
      <h1>Catalog</h1>
      <Shown asked={places}>{(orgs) => <Place orgs={orgs} place={place} view="catalog" system />}</Shown>
      <Drop label="A file with a package" accept=".zip,.mcpb" kinds="A package: .zip or .mcpb. A version has to be newer than those that are there." take={(file, tell) => send(place, file, tell).finally(asked.again)} />
      <Card title="Packages"><Shown asked={asked}>{({ plugins }) => <Packages packages={plugins} place={place} />}</Shown></Card>
    </>
  );
}

// -- one package ---------------------------------------------------------------------------------------------

function Versions({ versions, place, again }: { versions: Package[]; place: string; again: () => void }) {
  const turn = (one: Package) => {
    const body = { enabled: !one.enabled };
    return (place === SYSTEM ? call("PATCH /api/admin/plugins/{plugin_id}", { path: { plugin_id: one.id }, body }) : call("PATCH /api/orgs/{org_id}/plugins/{plugin_id}", { path: { org_id: place, plugin_id: one.id }, body })).then(again);
  };
  const base = place === SYSTEM ? "/api/admin/plugins" : `/api/orgs/${encodeURIComponent(place)}/plugins`;
  return (
    <ul class="refusals">
      {versions.map((one) => (
        <li key={one.id}>
          <div><strong><Said text={one.version} /></strong> <Badge word={one.enabled ? "enabled" : "disabled"} /> {one.is_latest && <span class="tag">latest</span>} {one.source === "system" && place !== SYSTEM && <span class="tag">the system's</span>}<div class="faint">{bytes(one.bytes)}, <Time at={one.created_at} />{one.uploaded_by && <> by <Said text={one.uploaded_by} /></>}</div></div>
          <div class="actions">
            <a href={`${base}/${encodeURIComponent(one.id)}/download`} download aria-label={`Download ${one.version}`}>Download</a>
            {(one.source === "org" || place === SYSTEM) && <Act kind="plain" label={`${one.enabled ? "Disable" : "Enable"} ${one.version}`} act={() => turn(one)}>{one.enabled ? "Disable" : "Enable"}</Act>}
          </div>
        </li>
      ))}
    </ul>
  );
}

function OrgSettings({ org, pid, version }: { org: string; pid: string; version: string }) {
  const path = { org_id: org, pid };
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/plugins/{pid}/settings", { path }), [org, pid, version], { on: catalogEvents });
  return (
    <Card title="Settings of the org">
      <Shown asked={asked}>
        {({ settings, dropped }) => (
          <>
            {settings.some(isMissing) && <div class="caution">Without a value it cannot be loaded: <Said text={settings.filter(isMissing).map((one) => one.name || one.key).join(", ")} />. An orchestrator can have its own.</div>}
            {dropped.length > 0 && <div class="caution">Set for another version, and not used by this one: <Said text={dropped.join(", ")} /></div>}
            <SettingsForm settings={settings} save={(values) => call("PATCH /api/orgs/{org_id}/plugins/{pid}/settings", { path, body: { settings: values } }).then(asked.again)} />
          </>
        )}
      </Shown>
    </Card>
  );
}

function Grants({ org, pid }: { org: string; pid: string }) {
  const path = { org_id: org, pid };
  const [wanted, setWanted] = useState("");
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/plugins/{pid}/grants", { path }), [org, pid], { on: catalogEvents });
  const grant = (capability: string) =>
    askFirst({
      title: "Let it reach this host?",
      yes: "Grant",
      danger: true,
      text: <p><code><Said text={capability} /></code>: whatever the package knows it can send there.</p>,
      act: () => call("POST /api/orgs/{org_id}/plugins/{pid}/grants", { path, body: { capability } }).then(() => { setWanted(""); asked.again(); }),
    });
  const revoke = (capability: string) => call("DELETE /api/orgs/{org_id}/plugins/{pid}/grants", { path, query: { capability } }).then(asked.again);
  return (
    <Card title="What it may reach">
      <Shown asked={asked}>
        {({ declares, grants, org_may }) => {
          const open = declares.filter((one) => !grants.some((given) => given.capability === one));
          return (
            <>
              {grants.length + open.length === 0 ? <p class="faint">No host, and it asks for none.</p> : (
                <ul class="lines">
                  {grants.map((one) => <li key={one.capability}><code><Said text={one.capability} /></code> <span class="faint">granted <Time at={one.granted_at} />{one.granted_by && <> by <Said text={one.granted_by} /></>}</span> <Act kind="plain" label={`Revoke ${one.capability}`} act={() => revoke(one.capability)}>Revoke</Act></li>)}
                  {open.map((one) => <li key={one}><code><Said text={one} /></code> <span class="faint">asked for, not granted</span> <Act kind="plain" label={`Grant… ${one}`} act={() => grant(one)}>Grant…</Act></li>)}
                </ul>
              )}
              <p class="faint">The operator lets this org grant: {org_may.length > 0 ? <code><Said text={org_may.join(", ")} /></code> : "nothing (catalog.org_may)"}.</p>
              <form class="stack" onSubmit={(event) => event.preventDefault()}>
                <Field label="Grant a host" help="net:HOST:PORT">{(id, described) => <input id={id} aria-describedby={described} class="mono" autocomplete="off" placeholder="net:api.example.org:443" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />}</Field>
                <div class="actions"><Act submits disabled={!wanted.trim()} act={() => grant(wanted.trim())}>Grant…</Act></div>
              </form>
            </>
          );
        }}
      </Shown>
    </Card>
  );
}

function PackageFacts({ one }: { one: Package }) {
  const list = (texts: string[]) => (texts.length > 0 ? <Said text={texts.join(", ")} /> : "none");
  return (
    <Card title="Facts">
      <Facts rows={[["Pid", <code><Said text={one.pid} /></code>], ["Kind", one.kind], ["Agent", [one.is_specialized && "specialized", one.is_scoped && "scoped"].filter(Boolean).join(", ") || "no, tools only"], ["State", one.stateless ? "none: one process for all of the org" : "its own"], ["Dependencies", list(one.dependencies)], ["Settings", plural(one.settings_schema.length, "setting")], ["SHA-256", <code>{one.sha256}</code>]]} />
    </Card>
  );
}

export function PackageView({ place, pid }: { place: string; pid: string }) {
  const asked = useAsk(async () => {
    const { plugins } = await (place === SYSTEM ? call("GET /api/admin/plugins/{pid}/versions", { path: { pid } }) : call("GET /api/orgs/{org_id}/plugins/{pid}/versions", { path: { org_id: place, pid } }));
    return { plugins, one: plugins.find((each) => each.is_latest && each.source === "org") ?? plugins.find((each) => each.is_latest) ?? plugins[0] };
  }, [place, pid], { on: catalogEvents });
  return (
    <>
      <p class="crumb"><a href={at("catalog", place)}>Catalog</a> /</p>
      <Shown asked={asked}>
        {({ plugins, one }) => (
          <>
            <div class="head">
              <div class="line">
                <Logo one={one} />
                <div>
                  <h1><Said text={one.name} /> <small><Said text={one.version} /></small> <Badge word={one.enabled ? "enabled" : "disabled"} /></h1>
                  <p class="lead"><Said text={one.description} /></p>
                  <Tags one={one} />
                </div>
              </div>
            </div>
            <Card title="Versions"><Versions versions={plugins} place={place} again={asked.again} /></Card>
            {place !== SYSTEM && <OrgSettings org={place} pid={pid} version={one.version} />}
            {place !== SYSTEM && <Grants org={place} pid={pid} />}
            <PackageFacts one={one} />
          </>
        )}
      </Shown>
    </>
  );
}
