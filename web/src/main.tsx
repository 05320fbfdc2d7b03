// The page: who is let in, where he is, and what is there. A view is a row of `views`.
import { signal } from "@preact/signals";
import { Component, type ComponentChild, type ComponentChildren, render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { enter, may, type Schemas, session } from "./api";
import { connect, link } from "./live";
import { Questions } from "./questions";
import "./style.css";
import "uplot/dist/uPlot.min.css";
import { Badge, Command, Dialogs, noteError, Notes, Problem } from "./ui";
import { Overview } from "./views/overview";

type Others = typeof import("./views/others");

interface View {
  path: string; // the first word behind the #/
  name: string; // in the navigation; "": not there
  scope: Schemas["Scope"];
  depth?: number; // how many words of the place are another place; 2
  show?: (rest: string[], others: Others) => ComponentChild; // none: it is the overview, which is part of this file
}
const views: View[] = [
  { path: "", name: "Overview", scope: "plugins:read" },
  { path: "plugins", name: "", scope: "plugins:read", show: ([name = "", part = "now"], { Plugin }) => <Plugin key={name} name={name} part={part} /> },
  { path: "consents", name: "Consents", scope: "plugins:read", show: ([id], { Consents, ConsentView }) => (id ? <ConsentView key={id} id={id} /> : <Consents />) },
  { path: "projects", name: "Projects", scope: "projects:read", show: ([id, part = "", agent = ""], { Projects, ProjectView }) => (id ? <ProjectView key={id} id={id} part={part} agent={agent} /> : <Projects />) },
  { path: "sessions", name: "Sessions", scope: "sessions:read", show: ([id], { Sessions, SessionView }) => (id ? <SessionView key={id} id={id} /> : <Sessions />) },
  { path: "audit", name: "Audit", scope: "audit:read", show: (_, { Audit }) => <Audit /> },
  { path: "add", name: "Add", scope: "plugins:write", show: (_, { Add }) => <Add /> },
  { path: "connect", name: "Connect", scope: "plugins:read", show: ([way = ""], { Connect }) => <Connect chosen={way} /> },
  { path: "orgs", name: "Orgs", scope: "admin", show: ([id], { Orgs, OrgView }) => (id ? <OrgView key={id} id={id} /> : <Orgs />) },
  { path: "catalog", name: "Catalog", scope: "admin", depth: 3, show: ([place, pid], { Catalog, PackageView, SYSTEM }) => (pid ? <PackageView key={`${place}/${pid}`} place={place} pid={pid} /> : <Catalog key={place ?? SYSTEM} place={place ?? SYSTEM} />) },
  { path: "orchestrators", name: "Orchestrators", scope: "admin", depth: 3, show: ([org = "", id], { Orchestrators, OrchestratorView }) => (id ? <OrchestratorView key={id} org={org} id={id} /> : <Orchestrators key={org} org={org} />) },
  { path: "access", name: "Access", scope: "admin", show: (_, { Access }) => <Access /> },
  { path: "daemon", name: "Daemon", scope: "plugins:read", show: (_, { DaemonView }) => <DaemonView /> },
];

// The first view does not wait for the others. They are here soon after it, so that no click waits for them, and so
// that a page that stays open has what it needs when the daemon is another.
const OTHERS_MS = 400;
const others = signal<Others | null>(null);
async function loadOthers(): Promise<void> {
  try {
    others.value = await import("./views/others");
  } catch {
    noteError(new Error("a part of this page could not be loaded; it may be one of an older daemon: reload it"));
  }
}

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
          {!view ? <p>There is nothing here. <a href="#/">Back to the overview</a></p> : may(view.scope) ? <Shows view={view} rest={rest} /> : session.value === undefined ? <p class="faint">Loading…</p> : <p>This needs the scope <code>{view.scope}</code>, which this session does not have.</p>}
        </Guard>
      </main>
    </>
  );
}

function Shows({ view, rest }: { view: View; rest: string[] }) {
  if (!view.show) return <Overview />;
  return others.value ? <>{view.show(rest, others.value)}</> : <p class="faint">Loading…</p>;
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
  setTimeout(loadOthers, place.value[0] === "" ? OTHERS_MS : 0);
}
