// A browser for tests/lib/browser.py: a JSON array a line comes in on stdin, [command, argument...], and a line
// {"value"} or {"error"} goes out for each. What the page complains about is kept, and asked for by "complaints".
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [executable, packages, folder] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const context = await chromium.launchPersistentContext(folder, {
  executablePath: executable,
  headless: true,
  timeout: 180_000,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
context.setDefaultTimeout(60_000);
let complaints = [];
let requests = [];
await context.exposeBinding("reportViolation", (_, text) => complaints.push(`CSP: ${text}`));
await context.addInitScript(() =>
  document.addEventListener("securitypolicyviolation", (event) =>
    window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`)),
);
const page = context.pages()[0] ?? (await context.newPage());
page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
page.on("console", (message) => {
  // A request that fails is the network's word, and a test may want it.
  if (message.type() === "error" && !message.text().startsWith("Failed to load resource") && !message.text().includes("WebSocket connection to"))
    complaints.push(`console: ${message.text()}`);
});
page.on("dialog", (dialog) => {
  complaints.push(`dialog: ${dialog.message()}`);
  void dialog.dismiss();
});
context.on("request", (request) => requests.push(request.url()));

const commands = {
  open: async (url) => (await page.goto(url, { waitUntil: "load" }))?.status(),
  reload: () => page.reload(),
  click: (selector) => page.locator(selector).first().click(),
  fill: (selector, text) => page.locator(selector).first().fill(text),
  choose: (selector, option) => page.locator(selector).first().selectOption(option),
  check: (selector, on) => page.locator(selector).first().setChecked(on),
  setFile: (selector, path) => page.locator(selector).first().setInputFiles(path),
  press: (key) => page.keyboard.press(key),
  wait: (selector) => page.locator(selector).first().waitFor(),
  waitGone: (selector) => page.locator(selector).first().waitFor({ state: "detached" }),
  text: (selector) => page.locator(selector).first().innerText(),
  texts: (selector) => page.locator(selector).allInnerTexts(),
  count: (selector) => page.locator(selector).count(),
  evaluate: (source) => page.evaluate(source),
  size: (width, height) => page.setViewportSize({ width, height }),
  scheme: (colorScheme) => page.emulateMedia({ colorScheme }),
  screenshot: (path, fullPage) => page.screenshot({ path, fullPage: fullPage ?? false }),
  complaints: () => complaints.splice(0),
  requests: () => requests.splice(0),
  async axe() {
    await page.evaluate(axeSource);
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    return found.violations
      .filter((one) => one.impact === "serious" || one.impact === "critical")
      .map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`.slice(0, 1500));
  },
};

console.log(JSON.stringify({ value: "ready" }));
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...words] = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: (await commands[name](...words)) ?? null }));
  } catch (error) {
    const shown = await page.evaluate(() => document.body?.innerText.slice(0, 1500)).catch(() => "");
    console.log(JSON.stringify({ error: `${error.message}\n${page.url()} shows:\n${shown}\n${complaints.join("\n")}` }));
  }
}
await context.close();
