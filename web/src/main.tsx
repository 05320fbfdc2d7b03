// The page: who is let in, where he is, and what is there. A view is a row of `views`.
import { signal } from "@preact/signals";
import { Component, type ComponentChild, type ComponentChildren, render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { enter, may, type Schemas, session } from "./api";
import { connect, link } from "./live";
import { Questions } from "./questions";
import "./style.css";
import { Badge, Command, Dialogs, noteError, Notes, Problem } from "./ui";
import { Access } from "./views/access";
import { Add } from "./views/add";
import { Audit } from "./views/audit";
import { Catalog, PackageView, SYSTEM } from "./views/catalog";
import { Connect } from "./views/connect";
import { Consents, ConsentView } from "./views/consents";
import { DaemonView } from "./views/daemon";
import { Orchestrators, OrchestratorView } from "./views/orchestrators";
import { Orgs, OrgView } from "./views/orgs";
import { Overview } from "./views/overview";
import { Plugin } from "./views/plugin";
import { Projects, ProjectView } from "./views/projects";
import { SessionView } from "./views/session";
import { Sessions } from "./views/sessions";

interface View {
  path: string; // the first word behind the #/
  name: string; // in the navigation; "": not there
  scope: Schemas["Scope"];
  depth?: number; // how many words of the place are another place; 2
  show: (rest: string[]) => ComponentChild;
}
const views: View[] = [
  { path: "", name: "Overview", scope: "plugins:read", show: () => <Overview /> },
  { path: "plugins", name: "", scope: "plugins:read", show: ([name = "", part = "now"]) => <Plugin key={name} name={name} part={part} /> },
  { path: "consents", name: "Consents", scope: "plugins:read", show: ([id]) => (id ? <ConsentView key={id} id={id} /> : <Consents />) },
  { path: "projects", name: "Projects", scope: "projects:read", show: ([id, part = "", agent = ""]) => (id ? <ProjectView key={id} id={id} part={part} agent={agent} /> : <Projects />) },
  { path: "sessions", name: "Sessions", scope: "sessions:read", show: ([id]) => (id ? <SessionView key={id} id={id} /> : <Sessions />) },
  { path: "audit", name: "Audit", scope: "audit:read", show: () => <Audit /> },
  { path: "add", name: "Add", scope: "plugins:write", show: () => <Add /> },
  { path: "connect", name: "Connect", scope: "plugins:read", show: ([way = ""]) => <Connect chosen={way} /> },
  { path: "orgs", name: "Orgs", scope: "admin", show: ([id]) => (id ? <OrgView key={id} id={id} /> : <Orgs />) },
  { path: "catalog", name: "Catalog", scope: "admin", depth: 3, show: ([place = SYSTEM, pid]) => (pid ? <PackageView key={`${place}/${pid}`} place={place} pid={pid} /> : <Catalog key={place} place={place} />) },
  { path: "orchestrators", name: "Orchestrators", scope: "admin", depth: 3, show: ([org = "", id]) => (id ? <OrchestratorView key={id} org={org} id={id} /> : <Orchestrators key={org} org={org} />) },
  { path: "access", name: "Access", scope: "admin", show: () => <Access /> },
  { path: "daemon", name: "Daemon", scope: "plugins:read", show: () => <DaemonView /> },
];

const place = signal<string[]>([]);
function readPlace(): void {
  place.value = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
}

const LINKS = { live: "live", connecting: "connecting", lost: "lost" } as const;
const LINK_WORDS = { live: "Live", connecting: "Connecting…", lost: "The daemon cannot be reached. Trying again…" } as const;

function Frame() {
  const [first, ...rest] = place.value;
  const view = views.find((one) => one.path === first);
  const here = place.value.slice(0, view?.depth ?? 2).join("/");
  const arrived = useRef(false);
  useEffect(() => {
    document.title = view?.name ? `${view.name} – kaged` : `${rest[0] ?? "kaged"} – kaged`;
    if (arrived.current) document.getElementById("main")?.focus({ preventScroll: true });
    arrived.current = true;
    document.querySelector(".bar nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
    scrollTo(0, 0);
  }, [here]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href="#/">
          kaged
        </a>
        <nav aria-label="Views">
          {session.value && views.filter((one) => one.name && may(one.scope)).map((one) => (
            <a key={one.path} href={`#/${one.path}`} aria-current={one.path === first || (one.path === "" && first === "plugins") ? "page" : undefined}>
              {one.name}
            </a>
          ))}
        </nav>
        <div class="link" role="status" title={LINK_WORDS[link.value]}>
          <Badge word={LINKS[link.value]} />
        </div>
      </header>
      {link.value === "lost" && <div class="lost" role="alert">{LINK_WORDS.lost}</div>}
      <Questions place={place.value} />
      <main id="main" tabIndex={-1}>
        <Guard key={here}>
          {!view ? <p>There is nothing here. <a href="#/">Back to the overview</a></p> : may(view.scope) ? view.show(rest) : session.value === undefined ? <p class="faint">Loading…</p> : <p>This needs the scope <code>{view.scope}</code>, which this session does not have.</p>}
        </Guard>
      </main>
    </>
  );
}

// A view that fails leaves the others alone.
class Guard extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  state = { error: null as Error | null };
  componentDidCatch(error: Error) {
    this.setState({ error });
  }
  render() {
    return this.state.error ? <Problem error={this.state.error} /> : this.props.children;
  }
}

function Door() {
  return (
    <main id="main" class="door">
      <h1>kaged</h1>
      <p>This browser is not signed in yet. On the machine that runs kaged, this opens the page with a URL that works once:</p>
      <Command text="kaged auth open" />
      <p class="faint">If the page was open before, its session has ended or was logged out.</p>
    </main>
  );
}

function Page() {
  return (
    <>
      {session.value === null ? <Door /> : <Frame />}
      <Dialogs />
      <Notes />
    </>
  );
}

async function begin(): Promise<void> {
  for (;;) {
    try {
      await enter();
      break;
    } catch (error) {
      noteError(error);
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
  if (session.value) connect();
}

// What is in a frame of somebody else's page could be clicked by whoever sees something else.
if (window.top === window.self) {
  addEventListener("hashchange", readPlace);
  readPlace();
  render(<Page />, document.getElementById("page")!);
  void begin();
}
