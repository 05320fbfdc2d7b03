// Bundles the page into FOLDER: index.html, and files whose names have a hash of what is in them, gzipped.
// usage: node build.mjs FOLDER
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const BYTES_MAX = 150 * 1024; // of all of it, as it is sent
const folder = process.argv[2];
let sent = 0;

function put(name, bytes) {
  writeFileSync(join(folder, name), bytes);
  sent += bytes.length;
}
const zip = (content) => gzipSync(content, { level: 9 });

mkdirSync(folder, { recursive: true });
const options = {
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  outdir: folder,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  target: ["chrome110", "firefox115", "safari16.4"],
  legalComments: "none",
  logLevel: "warning",
};
const first = await build({ ...options, entryPoints: { first: "src/first.ts" }, format: "iife" });
const made = await build({
  ...options,
  entryPoints: { page: "src/main.tsx" },
  format: "esm",
  splitting: true,
  jsx: "automatic",
  jsxImportSource: "preact",
});

// What the page imports is wanted with it; what it may import later is fetched when there is nothing else to do.
const outputs = new Map(Object.entries(made.metafile.outputs).map(([path, output]) => [basename(path), output]));
const needed = new Set();
function need(name) {
  if (needed.has(name)) return;
  needed.add(name);
  for (const one of outputs.get(name).imports) if (one.kind === "import-statement") need(basename(one.path));
}
need([...outputs].find(([, output]) => output.entryPoint === "src/main.tsx")[0]);

let html = readFileSync("index.html", "utf8");
for (const file of [...first.outputFiles, ...made.outputFiles]) {
  const name = basename(file.path); // NAME-HASH.EXTENSION
  put(`${name}.gz`, zip(file.contents));
  const plain = `/page/${name.replace(/-[^-]*\./, ".")}`;
  if (html.includes(plain)) html = html.replace(plain, `/page/${name}`);
  else html = html.replace("</head>", `<link rel="${needed.has(name) ? "modulepreload" : "prefetch"}" href="/page/${name}">\n</head>`);
}
const icon = readFileSync("icon.svg");
const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8)}.svg`;
put(`${iconName}.gz`, zip(icon));
html = html.replace("/page/icon.svg", `/page/${iconName}`);
put("index.html", Buffer.from(html));
console.log(`web: ${(sent / 1024).toFixed(1)} KB of at most ${BYTES_MAX / 1024} KB`);
if (sent > BYTES_MAX) {
  console.error("web: the page is too heavy");
  process.exit(1);
}
