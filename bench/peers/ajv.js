// The peer of bench/schema.c: the same schema and instance, the same three figures, by ajv.
// usage: node ajv.js SCHEMA INSTANCE
const fs = require("fs");
const Ajv = require("ajv/dist/2020");

const [schemaText, instanceText] = process.argv.slice(2).map((path) => fs.readFileSync(path, "utf8"));
const schema = JSON.parse(schemaText);
const instance = JSON.parse(instanceText);

/** Calls a second of `work`, over about a fifth of a second, after a warm-up. */
function rate(work, batch) {
  for (let i = 0; i < batch; i++) work();
  let calls = 0;
  const start = process.hrtime.bigint();
  let elapsed = 0n;
  while (elapsed < 200_000_000n) {
    for (let i = 0; i < batch; i++) work();
    calls += batch;
    elapsed = process.hrtime.bigint() - start;
  }
  return (calls * 1e9) / Number(elapsed);
}

const check = new Ajv().compile(schema);
function must(fits) {
  if (!fits) throw new Error("the instance does not fit");
}
console.log("check", rate(() => must(check(instance)), 1000));
console.log("text", rate(() => must(check(JSON.parse(instanceText))), 1000));
console.log("compile", rate(() => new Ajv().compile(JSON.parse(schemaText)), 5));
