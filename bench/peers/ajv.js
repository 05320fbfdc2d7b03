// The peer of bench/schema.c: the same commands on the same schema and instance, by ajv.
// usage: ajv.js SCHEMA INSTANCE
const fs = require("fs");
const Ajv = require("ajv/dist/2020");
const { must, serve } = require("./contender.js");

const [schemaText, instanceText] = process.argv.slice(2).map((path) => fs.readFileSync(path, "utf8"));
const instance = JSON.parse(instanceText);
const check = new Ajv().compile(JSON.parse(schemaText));

function rate(ms, work, batch) {
  let calls = 0;
  const start = performance.now();
  let elapsed;
  do {
    for (let i = 0; i < batch; i++) work();
    calls += batch;
    elapsed = performance.now() - start;
  } while (elapsed < ms);
  return { rate: (calls * 1000) / elapsed };
}

serve({
  check: async (ms) => rate(ms, () => must(check(instance)), 1000),
  text: async (ms) => rate(ms, () => must(check(JSON.parse(instanceText))), 1000),
  compile: async (ms) => rate(ms, () => new Ajv().compile(JSON.parse(schemaText)), 5),
});
