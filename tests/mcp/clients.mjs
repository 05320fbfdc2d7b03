// Clients of the SDK, one way after the other: each lists the tools and calls one of each tier. A line of JSON each.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, kaged, home] = process.argv.slice(2);
const require = createRequire(modules + "/x.js");
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

async function use(way, client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const text = await client.callTool({ name: "mcp-reference__test_simple_text", arguments: {} });
  const echo = await client.callTool({ name: "hears-hooks__echo", arguments: { text: "hi" } });
  console.log(JSON.stringify({
    way, tools: tools.map((tool) => tool.name), text: text.content[0].text, echo: echo.content[0].text,
  }));
  await client.close();
}

const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const one = () => new Client({ name: "test", version: "1" });
await use("1.x over http", one(), new StreamableHTTPClientTransport(new URL(url)));
await use("1.x over stdio", one(), new StdioClientTransport({
  command: kaged, args: ["--home", home, "mcp", "serve", "--no-project"], env: process.env,
}));

const second = await load("@modelcontextprotocol/client");
await use("2.x over http",
  new second.Client({ name: "test", version: "2" }, { versionNegotiation: { mode: "auto" } }),
  new second.StreamableHTTPClientTransport(new URL(url)));
process.exit(0);
