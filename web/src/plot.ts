// What draws charts: heavy, and not needed for a first view.
export { default as Plot } from "uplot";
