// Clients of the SDK, one way after the other: each lists the tools and calls one of each plugin. A line of JSON each.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, kaged, home, calls] = process.argv.slice(2);
const require = createRequire(modules + "/x.js");
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

async function use(way, client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const texts = {};
  for (const [name, args] of Object.entries(JSON.parse(calls)))
    texts[name] = (await client.callTool({ name, arguments: args })).content[0].text ?? "";
  console.log(JSON.stringify({ way, tools: tools.map((tool) => tool.name), texts }));
  await client.close();
}

const serve = { command: kaged, args: ["--home", home, "mcp", "serve", "--no-project"], env: process.env };
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const one = () => new Client({ name: "test", version: "1" });
await use("1.x over http", one(), new StreamableHTTPClientTransport(new URL(url)));
await use("1.x over stdio", one(), new StdioClientTransport(serve));

const second = await load("@modelcontextprotocol/client");
const stdio = await load("@modelcontextprotocol/client/stdio");
for (const mode of ["auto", "legacy"]) {
  const two = () => new second.Client({ name: "test", version: "2" }, { versionNegotiation: { mode } });
  await use(`2.x ${mode} over http`, two(), new second.StreamableHTTPClientTransport(new URL(url)));
  await use(`2.x ${mode} over stdio`, two(), new stdio.StdioClientTransport(serve));
}
process.exit(0);
