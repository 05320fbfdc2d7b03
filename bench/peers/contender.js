// A contender in JavaScript, for node and Bun: each line on stdin is a command with numbers, each
// answer one line of JSON with its figures; see bench/contender.h.
const readline = require("readline");

const SAMPLES_MAX = 1 << 20;
const samples = new Float64Array(SAMPLES_MAX);
let answered = 0; // calls of the last drive

/** What every call carries, as kaged's do. */
const context = {
  operator_id: "bench", project_id: null, agent_path: null, session_id: null,
  request_id: "req_01ARZ3NDEKTSV4RRFFQ69G5FAV",
};

/** Calls for so many milliseconds, so many in flight. */
async function drive(call, ms, inFlight) {
  const start = performance.now();
  answered = 0;
  async function lane() {
    do {
      const sent = performance.now();
      await call();
      if (answered < SAMPLES_MAX) samples[answered] = performance.now() - sent;
      answered++;
    } while (performance.now() - start < ms);
  }
  await Promise.all(Array.from({ length: inFlight }, lane));
  return { rate: (answered * 1000) / (performance.now() - start), calls: answered };
}

/** Of the last drive. */
function latencies() {
  const taken = samples.subarray(0, Math.min(answered, SAMPLES_MAX)).sort();
  const quantile = (share) => taken[Math.floor((taken.length - 1) * share)] * 1000;
  return { p50_us: quantile(0.5), p99_us: quantile(0.99) };
}

/** Answers commands until stdin ends; each is an async function of numbers. */
async function serve(commands) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...numbers] = line.trim().split(" ");
    process.stdout.write(JSON.stringify(await commands[name](...numbers.map(Number))) + "\n");
  }
  process.exit(0);
}

/**
 * Serves as a host. `connect` starts the program and gives a function that makes a call with a text
 * and fails unless its answer is right.
 */
function serveHost(connect) {
  const program = process.argv[2];
  const plugins = [];
  return serve({
    async calls(ms, inFlight, bytes) {
      if (plugins.length === 0) plugins.push(await connect(program));
      const text = "x".repeat(bytes);
      return drive(() => plugins[0](text), ms, inFlight);
    },
    latencies: async () => latencies(),
    /** So many plugins live, each called once. */
    async plugins(count) {
      while (plugins.length < count) {
        plugins.push(await connect(program));
        await plugins[plugins.length - 1]("hello");
      }
      return {};
    },
  });
}

function must(right) {
  if (!right) throw new Error("a wrong answer");
}

process.on("unhandledRejection", (error) => {
  console.error(error);
  process.exit(1);
});

module.exports = { context, must, serve, serveHost };
