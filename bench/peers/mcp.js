// A host on the SDK of the Model Context Protocol, for node and Bun: its client over stdio, a call
// of a tool each.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { must, serveHost } = require("./contender.js");

async function connect(program) {
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(new StdioClientTransport({ command: program, args: ["mcp"] }));
  return async (text) => {
    const answer = await client.callTool({ name: "fast.echo", arguments: { text, count: 42 } });
    must(answer.content[0].text === "ok");
  };
}

serveHost(connect);
