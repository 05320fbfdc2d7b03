// Each line by JSON.parse, of bytes as they come from a pipe. usage: scan.js FILE
const fs = require("fs");
const { must, serve } = require("./contender.js");

const LINES = 64;
const bytes = Buffer.concat(Array(LINES).fill(fs.readFileSync(process.argv[2])));

function scanOnce() {
  let seen = 0;
  for (let from = 0, to; (to = bytes.indexOf(10, from)) >= 0; from = to + 1, seen++) {
    const message = JSON.parse(bytes.toString("utf8", from, to));
    must(message.id === 123456789 && message.result.done === true);
  }
  must(seen === LINES);
}

serve({
  async scan(ms) {
    let scanned = 0;
    const start = performance.now();
    let elapsed;
    do {
      scanOnce();
      scanned += bytes.length;
      elapsed = performance.now() - start;
    } while (elapsed < ms);
    return { rate: scanned / elapsed / 1000 };
  },
});
