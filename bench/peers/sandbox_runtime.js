// Starts of a program in Anthropic's sandbox-runtime, as a library. Its rules are those of the whole
// process, set when it is initialized: a program with rules of its own needs that for its start, programs
// that share their rules need it once.
// usage: node sandbox_runtime.js own|shared PROGRAM     commands: start
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
  const [rules, program] = process.argv.slice(2);
  await SandboxManager.initialize(config);
  await serve({
    async start() {
      if (rules === "own") await SandboxManager.reset();
      const start = performance.now();
      if (rules === "own") await SandboxManager.initialize(config);
      const command = await SandboxManager.wrapWithSandbox(program);
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
