// A host on Bun, as small as it can be: JSON lines to the plugin, promises by id. What is written
// in one turn goes out at once.
const { context, must, serveHost } = require("./contender.js");

async function readAnswers(stdout, waiting) {
  const decoder = new TextDecoder();
  let held = "";
  for await (const chunk of stdout) {
    const lines = (held + decoder.decode(chunk, { stream: true })).split("\n");
    held = lines.pop();
    for (const line of lines) {
      const answer = JSON.parse(line);
      waiting.get(answer.id)(answer.result);
      waiting.delete(answer.id);
    }
  }
}

async function connect(program) {
  const process = Bun.spawn([program], { stdin: "pipe", stdout: "pipe" });
  const waiting = new Map();
  let id = 0;
  let flushing = false;
  function flush() {
    flushing = false;
    process.stdin.flush();
  }
  readAnswers(process.stdout, waiting);
  return async (text) => {
    const request = {
      jsonrpc: "2.0", id: ++id, method: "fast.echo", params: { _context: context, text, count: 42 },
    };
    process.stdin.write(JSON.stringify(request) + "\n");
    if (!flushing) {
      flushing = true;
      queueMicrotask(flush);
    }
    must((await new Promise((resolve) => waiting.set(request.id, resolve))).ok === true);
  };
}

serveHost(connect);
