// What is found, in which order, and why.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { Folder, MemoryFull } from "../dist/folder.js";
import { DAY, World } from "./world.mjs";

test("rare words count for more, and beginnings of words count too", async (t) => {
  const world = await World.make(t, { recency_weight: 0 });
  for (const text of ["The server is fast.", "The server is slow.", "The deployment server is in Rome."])
    await world.retain(text);
  const { memories, found, total } = await world.tool("recall", { query: "Where do we deploy the server?" });
  assert.deepEqual([found, total], [3, 3]);
  assert.equal(memories[0].text, "The deployment server is in Rome.");
  assert.match(memories[0].why, /^words deploy~, server \(0\.\d+\); 0 days old \(1\)$/);
  assert.ok(memories[0].score > memories[1].score);
});

test("the score is what the formula says", async (t) => {
  const world = await World.make(t, { recency_weight: 0.25, half_life_days: 10 });
  await world.retain("alpha beta", { tags: ["Greek"] });
  world.now += 10 * DAY;
  const [first] = (await world.tool("recall", { query: "alpha gamma", tags: ["greek", "latin"] })).memories;
  // ln(1 + 1/2) of ln(1 + 1/2) + ln(1 + 1/1) for the words; one of two tags; one half-life
  const words = Math.log(1.5) / (Math.log(1.5) + Math.log(2));
  const score = 0.75 * (0.7 * words + 0.3 * 0.5) + 0.25 * 0.5;
  assert.ok(Math.abs(first.score - score) < 0.001, `${first.score} ${score}`);
  assert.equal(first.why, `words alpha (${Math.round(words * 1000) / 1000}); tags greek (0.5); 10 days old (0.5)`);
});

test("of equal matches the newer is first; recency alone finds nothing", async (t) => {
  const world = await World.make(t);
  await world.retain("Lunch is at noon.");
  world.now += 60 * DAY;
  await world.retain("Lunch is at one.");
  await world.retain("Dinner is late.");
  assert.deepEqual(await world.found("lunch"), ["Lunch is at one.", "Lunch is at noon."]);
  assert.deepEqual(await world.found("", { tags: ["none"] }), []);
});

test("an empty query gives the newest, and limits hold", async (t) => {
  const world = await World.make(t, { recall_limit: 2 });
  for (const text of ["one", "two", "three"]) {
    await world.retain(text, { tags: ["count"] });
    world.now += DAY;
  }
  assert.deepEqual(await world.found(""), ["three", "two"]);
  assert.deepEqual(await world.found("", { limit: 1 }), ["three"]);
  assert.deepEqual(await world.found("", { tags: ["COUNT"], limit: 50 }), ["three", "two", "one"]);
});

test("words are found in any case, with and without accents, in any script", async (t) => {
  const world = await World.make(t);
  for (const text of ["Das Café schließt früh.", "会議は火曜日です。", "Привет из Москвы"]) await world.retain(text);
  for (const [query, start] of [["CAFE", "Das"], ["火曜", "会議"], ["москвы", "Привет"]])
    assert.deepEqual((await world.found(query)).map((text) => text.startsWith(start)), [true], query);
});

test("tags are listed with their numbers", async (t) => {
  const world = await World.make(t, { tags: ["all"] });
  await world.retain("one", { tags: ["a"] });
  await world.retain("two", { tags: ["a", "b"] });
  assert.deepEqual(await world.tool("list_tags"), {
    tags: [["all", 2], ["a", 2], ["b", 1]].sort(([x, n], [y, m]) => m - n || (x < y ? -1 : 1))
      .map(([tag, memories]) => ({ tag, memories, updated: "2026-05-27T12:00:00Z" })),
    total: 2, unreadable: [],
  });
});

test("arguments that do not fit are refused", async (t) => {
  const world = await World.make(t);
  const wrong = {
    retain: [{}, { content: 1 }, { content: "x", tags: "y" }, { content: "x", tags: [1] }, { content: "" }],
    recall: [{}, { query: null }, { query: "x", limit: 0 }, { query: "x", limit: 1.5 }],
    forget: [{}, { id: 7 }],
    list_tags: [{ more: 1 }],
  };
  for (const [tool, calls] of Object.entries(wrong))
    for (const args of calls)
      await assert.rejects(world.tool(tool, args), { code: -32602 }, `${tool} ${JSON.stringify(args)}`);
});

test("what a recall gives is bounded", async (t) => {
  const world = await World.make(t);
  mkdirSync(world.folder(), { recursive: true });
  for (let i = 0; i < 10; i++) writeFileSync(join(world.folder(), `${i}.md`), `word ${"x".repeat(20_000)}`);
  const { memories } = await world.tool("recall", { query: "word", limit: 10 });
  assert.equal(memories.map(({ text }) => text.length).reduce((a, b) => a + b), 100_000);
  assert.deepEqual(memories.map(({ cut }) => cut ?? false), [...Array(4).fill(false), ...Array(6).fill(true)]);
});

test("thousands of memories are read once", async (t) => {
  const world = await World.make(t);
  mkdirSync(world.folder(), { recursive: true });
  const subjects = ["tea", "servers", "music", "Rome", "cats", "tests", "colours"];
  for (let i = 0; i < 2000; i++)
    writeFileSync(join(world.folder(), `2026-01-01-${i}.md`),
      `---\nid: m${i}\ncreated: 2026-01-01\ntags: [t${i % 50}]\n---\nNumber ${i}, ${subjects[i % 7]}, word${i}.\n`);
  const times = [];
  for (const query of ["tea", "number servers", "word1999"]) {
    const start = performance.now();
    assert.match((await world.found(query))[0], new RegExp(query.split(" ").at(-1)));
    times.push(Math.round(performance.now() - start));
  }
  t.diagnostic(`2000 files: first recall ${times[0]} ms, then ${times[1]} and ${times[2]} ms`);
});

test("so many files are looked at, those with the last names, and no more are written", async (t) => {
  const world = await World.make(t);
  for (const name of ["a", "b", "c", "d"]) world.write(`${name}.md`, name);
  const warnings = [];
  const folder = new Folder(world.path(), ["music", "primary"], { warn: (words) => warnings.push(words) }, 3);
  assert.deepEqual(folder.refresh().refresh().entries.map(({ entry }) => entry.text), ["b", "c", "d"]);
  assert.deepEqual(warnings, ["only the last 3 names are looked at"]);
  assert.throws(() => folder.add({ text: "e", tags: [], created: world.now }), MemoryFull);
});
