/** Types of kaged's published schemas. */
export type * as manifest from "./generated/manifest.js";
export type * as project from "./generated/project.js";
