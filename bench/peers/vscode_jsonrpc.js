// A host on vscode-jsonrpc, with lines instead of its headers, so that the plugin is the same.
const { spawn } = require("child_process");
const {
  AbstractMessageReader, AbstractMessageWriter, createMessageConnection,
} = require("vscode-jsonrpc/node");
const { context, must, serveHost } = require("./contender.js");

class LineReader extends AbstractMessageReader {
  constructor(stream) {
    super();
    this.stream = stream;
  }

  listen(callback) {
    let held = "";
    this.stream.setEncoding("utf8");
    this.stream.on("data", (chunk) => {
      const lines = (held + chunk).split("\n");
      held = lines.pop();
      for (const line of lines) callback(JSON.parse(line));
    });
    return { dispose() {} };
  }
}

class LineWriter extends AbstractMessageWriter {
  constructor(stream) {
    super();
    this.stream = stream;
  }

  write(message) {
    this.stream.write(JSON.stringify(message) + "\n");
    return Promise.resolve();
  }

  end() {}
}

async function connect(program) {
  const child = spawn(program, { stdio: ["pipe", "pipe", "inherit"] });
  const connection = createMessageConnection(new LineReader(child.stdout), new LineWriter(child.stdin));
  connection.listen();
  return async (text) => {
    const answer = await connection.sendRequest("fast.echo", { _context: context, text, count: 42 });
    must(answer.ok === true);
  };
}

serveHost(connect);
