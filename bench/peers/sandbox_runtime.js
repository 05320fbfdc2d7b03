// Starts of a program in Anthropic's sandbox-runtime, as a library: initialized once, then each
// command is wrapped and run.
// usage: node sandbox_runtime.js PROGRAM     commands: start
const { spawn } = require("child_process");
const { once } = require("events");
const { must, serve } = require("./contender.js");

const config = {
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: [], denyWrite: [] },
};
const request = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "fast.echo", params: { text: "hello" } });
const answer = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { ok: true } });

async function main() {
  const { SandboxManager } = await import("@anthropic-ai/sandbox-runtime");
  await SandboxManager.initialize(config);
  await serve({
    async start() {
      const start = performance.now();
      const command = await SandboxManager.wrapWithSandbox(process.argv[2]);
      const child = spawn(command, { shell: true, stdio: ["pipe", "pipe", "inherit"] });
      child.stdin.write(request + "\n");
      const [said] = await once(child.stdout, "data");
      const ms = performance.now() - start;
      must(said.toString() === answer + "\n");
      child.stdin.end();
      await once(child, "exit");
      return { ms };
    },
  });
}

main();
