// Bundles the page into FOLDER: index.html, and files whose names have a hash of what is in them, gzipped.
// usage: node build.mjs FOLDER
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const BYTES_MAX = 150 * 1024; // of all of it, as it is sent
const folder = process.argv[2];
let sent = 0;

function put(name, bytes) {
  writeFileSync(join(folder, name), bytes);
  sent += bytes.length;
}
function putHashed(name, content) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  const hashed = name.replace(".", `-${hash}.`);
  put(`${hashed}.gz`, gzipSync(content, { level: 9 }));
  return hashed;
}

mkdirSync(folder, { recursive: true });
const made = await build({
  entryPoints: { page: "src/main.tsx" },
  bundle: true,
  minify: true,
  write: false,
  outdir: folder,
  format: "esm",
  target: ["chrome110", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
let html = readFileSync("index.html", "utf8");
for (const file of made.outputFiles) {
  const name = file.path.endsWith(".css") ? "page.css" : "page.js";
  html = html.replace(`/page/${name}`, `/page/${putHashed(name, file.contents)}`);
}
html = html.replace("/page/icon.svg", `/page/${putHashed("icon.svg", readFileSync("icon.svg"))}`);
put("index.html", Buffer.from(html));
console.log(`web: ${(sent / 1024).toFixed(1)} KB of at most ${BYTES_MAX / 1024} KB`);
if (sent > BYTES_MAX) {
  console.error("web: the page is too heavy");
  process.exit(1);
}
