// What waits for the operator's yes, with all that he agrees to; the dangers stand right above the button.
import { useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, Badge, Card, Code, Deliberate, Empty, Facts, Field, note, Said, Shown, Time } from "../ui";
import { bytes, count, plural } from "../words";

type Consent = Schemas["Consent"];
type Summary = Schemas["ConsentSummary"];
type Offer = Schemas["Offer"];

const OPEN: Summary["state"][] = ["wanted", "fetching", "offered", "installing"];
const TITLES: Record<Summary["kind"], string> = {
  install: "Install",
  upgrade: "Upgrade",
  approve: "Approve the files of",
  activate: "Let a project use",
  dev: "Run from its source folder",
};
const nameOf = (consent: Summary): string => consent.plugin ?? consent.source ?? consent.id;
export const consentEvents = (one: { type: string; event?: string }): boolean => one.type === "audit" && (one.event ?? "").startsWith("consent.");

// -- all of them ------------------------------------------------------------------------------------

function Row({ consent }: { consent: Summary }) {
  return (
    <a href={`#/consents/${consent.id}`}>
      <span class="what">
        <strong>{TITLES[consent.kind]} <Said text={nameOf(consent)} /></strong> <Said class="faint" text={consent.version} />
        <span class="faint block">
          {consent.project_id ? <>for the project <Said text={consent.project_id} /></> : consent.raised_by ? <>asked for by <Said text={consent.raised_by} /></> : null}
          {consent.source && consent.plugin && <> from <Said text={consent.source} /></>}
        </span>
      </span>
      <span class="faint"><Time at={consent.raised_at} /></span>
      <Badge word={consent.state} />
    </a>
  );
}

export function Consents() {
  const asked = useAsk(() => call("GET /api/v1/consents"), [], { on: consentEvents, every: 5000 });
  return (
    <>
      <h1>Consents</h1>
      <Shown asked={asked}>
        {({ consents }) => {
          const open = consents.filter((one) => OPEN.includes(one.state));
          const past = consents.filter((one) => !OPEN.includes(one.state));
          return (
            <>
              <Card title="Waiting for your decision">
                {open.length === 0 ? (
                  <Empty title="Nothing waits">Requests to install or upgrade a plugin, or to use it in a project, appear here first. <a href="#/add">Add a plugin</a></Empty>
                ) : (
                  <ul class="waiting">{open.map((one) => <li key={one.id}><Row consent={one} /></li>)}</ul>
                )}
              </Card>
              {past.length > 0 && <Card title="Answered"><ul class="waiting">{past.map((one) => <li key={one.id}><Row consent={one} /></li>)}</ul></Card>}
            </>
          );
        }}
      </Shown>
    </>
  );
}

// -- one: what is offered ---------------------------------------------------------------------------

const SIGNS = { new: "+", removed: "−", same: "" } as const;

function CapabilityRows({ rows, title }: { rows: Offer["capabilities"]; title: string }) {
  if (rows.length === 0) return null;
  const byDanger = [...rows].sort((a, b) => Number(!!a.danger) - Number(!!b.danger));
  return (
    <Card title={title}>
      <ul class="capabilities">
        {byDanger.map((one) => (
          <li key={one.difference + one.capability} class={one.difference}>
            <code>{SIGNS[one.difference]} <Said text={one.capability} /></code>
            <span>{one.operator && <span class="tag">{one.operator} by you</span>} <Said text={one.words} />{one.danger && <strong class="bad block">Dangerous: <Said text={one.danger} /></strong>}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const OWN: Record<Offer["own"][number]["kind"], string> = { granted: "granted", closed: "closed", environment: "in its environment" };

// What the operator adds to it, or takes from it; what is new is written with the yes.
function OwnLines({ own }: { own: Offer["own"] }) {
  if (own.length === 0) return null;
  return (
    <Card title="Your own changes">
      <ul class="capabilities">
        {own.map((one) => (
          <li key={one.kind + one.line} class={one.difference}>
            <code><Said text={one.line} /></code>
            <span><span class="tag">{OWN[one.kind]}{one.difference === "new" && ", with this yes"}</span> <Said text={one.words} />{one.danger && <strong class="bad block">Dangerous: <Said text={one.danger} /></strong>}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Differences({ offer }: { offer: Offer }) {
  const { file_changes: files } = offer;
  const changed = files.added_count + files.removed_count + files.changed_count;
  if (offer.changes.length === 0 && (!offer.compared || changed === 0)) return null;
  const list = [...files.added.map((one) => `+ ${one}`), ...files.removed.map((one) => `- ${one}`), ...files.changed.map((one) => `~ ${one}`)];
  return (
    <Card title={offer.compared ? "What else changes" : "What else it has"}>
      {offer.changes.length > 0 && (
        <Facts
          rows={offer.changes.map((one) => [
            one.what,
            <>
              {one.before.filter((old) => !one.after.includes(old)).map((old) => <s key={old} class="block"><Said text={old} /></s>)}
              {one.after.map((now) => <span key={now} class="block">{offer.compared && !one.before.includes(now) ? "+ " : ""}<Said text={now} /></span>)}
            </>,
          ])}
        />
      )}
      {offer.compared && changed > 0 && (
        <details>
          <summary>{plural(changed, "file")}: {count(files.added_count)} added, {count(files.removed_count)} removed, {count(files.changed_count)} changed</summary>
          <Code text={list.join("\n") + (list.length < changed ? `\nand ${changed - list.length} more` : "")} />
        </details>
      )}
    </Card>
  );
}

function About({ offer }: { offer: Offer }) {
  const unknown = <span class="faint">does not say</span>;
  return (
    <Card title="What it says about itself">
      <Facts
        rows={[
          ["Description", offer.description ? <Said text={offer.description} /> : unknown],
          ["Author", offer.author ? <Said text={offer.author} /> : unknown],
          ["License", offer.license ? <Said text={offer.license} /> : unknown],
          ["Homepage", offer.homepage ? <Said text={offer.homepage} /> : unknown],
          ["Comes from", <><Said text={offer.source ?? "the store"} /> ({offer.origin})</>],
          ["Files", `${count(offer.files)}, ${bytes(offer.bytes)}`],
          ["Runs", <code><Said text={offer.command.join(" ")} /></code>],
          ["Hash", <code class="faint"><Said text={offer.hash} /></code>],
        ]}
      />
      {offer.warnings.map((one) => <div key={one} class="caution"><Said text={one} /></div>)}
    </Card>
  );
}

function Decide({ consent, offer, again }: { consent: Consent; offer: Offer | null; again: () => void }) {
  const [wider, setWider] = useState(false);
  const [replace, setReplace] = useState(false);
  const dangers = offer ? [...offer.capabilities.filter((one) => one.danger && one.difference !== "removed" && one.operator !== "closed"), ...offer.own.filter((one) => one.danger && one.kind !== "closed")] : [];
  const [from, setFrom] = useState("");
  const path = { id: consent.id };
  const fetches = !offer && consent.kind !== "activate";
  const body: Schemas["Approval"] = !offer ? { ...(from.trim() && { path: from.trim() }) } : { hash: offer.hash, ...(offer.widens && { allow_new_capabilities: wider }), ...(offer.other_source && { replace_source: replace }) };
  const held = (fetches && !consent.source && !from.trim()) || (!!offer && ((offer.widens && !wider) || (offer.other_source && !replace)));
  return (
    <section class="card decide" aria-label="Your decision">
      {offer?.other_source && (
        <div class="problem">
          <strong>Another source: this is a different plugin with the same name.</strong>
          <div>Installed from <code><Said text={offer.installed_from} /></code>, this one from <code><Said text={offer.from} /></code>. It would get the storage, files, settings and grants of the installed one.</div>
          <label class="check"><input type="checkbox" checked={replace} onChange={(event) => setReplace(event.currentTarget.checked)} /> Replace the installed one</label>
        </div>
      )}
      {dangers.map((one) => <div key={one.words} class="problem"><strong>Dangerous: <Said text={one.words} /></strong> <Said text={one.danger} /></div>)}
      {offer?.widens && (
        <label class="check"><input type="checkbox" checked={wider} onChange={(event) => setWider(event.currentTarget.checked)} /> Allow what it could not do before ({plural(offer.capabilities_new, "capability", "capabilities")})</label>
      )}
      {fetches && (
        <Field label={consent.source ? "Fetch it from elsewhere (optional)" : "Where it is"} help="The absolute path of a folder or an archive on the daemon's machine.">
          {(id, described) => <input id={id} aria-describedby={described} class="mono" spellcheck={false} value={from} onInput={(event) => setFrom(event.currentTarget.value)} />}
        </Field>
      )}
      <div class="actions">
        <Act
          act={async () => {
            await call("POST /api/v1/consents/{id}/decline", { path });
            note("done", `Declined: ${nameOf(consent)}.`);
            again();
          }}
        >
          Decline
        </Act>
        <Deliberate
          disabled={held}
          act={async () => {
            await call("POST /api/v1/consents/{id}/approve", { path, body });
            note("done", offer ? `Approved: ${nameOf(consent)}.` : "It is being fetched.");
            again();
          }}
        >
          {fetches ? "Fetch and review" : "Approve"}
        </Deliberate>
      </div>
    </section>
  );
}

const HEADINGS: Record<Offer["change"], string> = { install: "Install", upgrade: "Upgrade", downgrade: "Downgrade", reinstall: "Install again", approve: "Approve the files of", dev: "Run from its folder" };

function Offered({ offer }: { offer: Offer }) {
  const of = (difference: string) => offer.capabilities.filter((one) => one.difference === difference);
  return (
    <>
      <About offer={offer} />
      <Differences offer={offer} />
      {offer.compared ? (
        <>
          <CapabilityRows title="What it may do already" rows={of("same")} />
          <CapabilityRows title="What it may no longer do" rows={of("removed")} />
          <CapabilityRows title="What it could not do before" rows={of("new")} />
        </>
      ) : (
        <CapabilityRows title="What it may do" rows={offer.capabilities} />
      )}
      <OwnLines own={offer.own} />
      {offer.capabilities.length === 0 && <Card title="What it may do"><p class="faint">Nothing beyond computing: no file, no host, no storage.</p></Card>}
    </>
  );
}

export function ConsentView({ id }: { id: string }) {
  const asked = useAsk(() => call("GET /api/v1/consents/{id}", { path: { id } }), [id], { on: consentEvents, every: 2000 });
  return (
    <>
      <p class="crumb"><a href="#/consents">Consents</a> /</p>
      <Shown asked={asked}>
        {(consent) => {
          const { offer } = consent;
          const asks = consent.state === "offered" || consent.state === "wanted";
          return (
            <>
              <div>
                <h1>{offer ? HEADINGS[offer.change] : TITLES[consent.kind]} <Said text={offer?.name ?? nameOf(consent)} /> <small>{offer?.installed_version && offer.compared ? `${offer.installed_version} → ` : ""}<Said text={offer?.version ?? consent.version} /></small> <Badge word={consent.state} /></h1>
                <p class="faint"><Said text={consent.state_meaning} />{consent.project_id && <>, for the project <Said text={consent.project_id} /></>}{asks && consent.expires_at && <>; the offer ends <Time at={consent.expires_at} /></>}</p>
              </div>
              {consent.error && <div class="problem" role="alert"><strong><Said text={consent.error.message} /></strong> <Said text={consent.error.hint} /></div>}
              {consent.progress && <p role="status">{consent.progress.phase}: {bytes(consent.progress.bytes)}{consent.progress.bytes_expected > 0 && ` of ${bytes(consent.progress.bytes_expected)}`}, {plural(consent.progress.files, "file")}</p>}
              {!offer && consent.state === "wanted" && <Card><Facts rows={[["Source", consent.source ? <code><Said text={consent.source} /></code> : "the project does not say where it comes from"], ["Asked for by", consent.raised_by ?? "–"]]} /></Card>}
              {offer && <Offered offer={offer} />}
              {asks && may("consents:write") && <Decide key={consent.state} consent={consent} offer={offer} again={asked.again} />}
              {consent.state === "done" && consent.plugin && <p><a href={`#/plugins/${encodeURIComponent(consent.plugin)}`}>Open <Said text={consent.plugin} /></a></p>}
            </>
          );
        }}
      </Shown>
    </>
  );
}
