// All views but the first: a file of its own, which nothing of the first view waits for.
export { Access } from "./access";
export { Add } from "./add";
export { Audit } from "./audit";
export { Catalog, PackageView, SYSTEM } from "./catalog";
export { Connect } from "./connect";
export { Consents, ConsentView } from "./consents";
export { DaemonView } from "./daemon";
export { Orchestrators, OrchestratorView } from "./orchestrators";
export { Orgs, OrgView } from "./orgs";
export { Plugin } from "./plugin";
export { Projects, ProjectView } from "./projects";
export { SessionView } from "./session";
export { Sessions } from "./sessions";
