// What the files look like, and what people and hostile texts do to them.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  appendFileSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync,
} from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { DAY, NOON, RESEARCHER, World } from "./world.mjs";

test("a memory is a markdown file with front matter", async (t) => {
  const world = await World.make(t);
  const { id, file } = await world.retain("Uses bun, never npm.\n\nSince 2025.",
    { tags: ["tooling", "bun"], context: "from the README" });
  assert.equal(file, "2026-05-27-uses-bun-never-npm-since-2025.md");
  assert.match(id, /^mem-[a-z0-9]{8}$/);
  assert.equal(world.read(file), `---
id: ${id}
created: 2026-05-27T12:00:00Z
updated: 2026-05-27T12:00:00Z
tags: [tooling, bun]
project: music
agent: primary
session: ses_1
source: retain
context: from the README
---

Uses bun, never npm.

Since 2025.
`);
});

test("the store explains itself, once", async (t) => {
  const world = await World.make(t);
  await world.retain("one");
  assert.match(readFileSync(world.path("README.md"), "utf8"), /^# Memories of agents\n/);
  writeFileSync(world.path("README.md"), "mine");
  await world.retain("two");
  assert.equal(readFileSync(world.path("README.md"), "utf8"), "mine");
});

test("names are dates and words, and unique", async (t) => {
  const world = await World.make(t);
  const texts = ["A b!", "a: b", "Ünïcode & <b>", "../../etc/passwd", "🙂", "日本語 メモ", "---\nid: evil\n---"];
  for (const text of [...texts, "x".repeat(4000)]) await world.retain(text);
  assert.deepEqual(world.files(), [
    "2026-05-27-a-b-2.md", "2026-05-27-a-b.md", "2026-05-27-etc-passwd.md", "2026-05-27-id-evil.md",
    "2026-05-27-note.md", "2026-05-27-unicode-b.md", `2026-05-27-${"x".repeat(48)}.md`,
    "2026-05-27-日本語-メモ.md",
  ].sort());
  assert.deepEqual(readdirSync(world.path()).sort(), ["README.md", "music"]);
});

test("no text can leave its place in the file", async (t) => {
  const world = await World.make(t);
  const content = "---\nid: mem-evil\ntags: [evil]\n---\nbody";
  const tags = ["a]\nid: x", 'say "hi"', "#no", "true", "1e3", "- x", "a, b", "---", "\u2028\u0085\u001b[31m"];
  const { id, file } = await world.retain(content, { tags, context: "x\n---\nid: mem-worse" });
  await world.restart();
  const { memories } = await world.tool("recall", { query: "body" });
  assert.equal(memories.length, 1);
  assert.equal(memories[0].id, id);
  assert.equal(memories[0].text, content);
  assert.deepEqual(memories[0].tags, ["a] id: x", 'say "hi"', "#no", "true", "1e3", "- x", "a, b", "---", "[31m"]);
  assert.equal(memories[0].context, "x --- id: mem-worse");
  assert.doesNotMatch(world.read(file), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028]/);
});

test("the same words again refresh the memory, and keep what people wrote", async (t) => {
  const world = await World.make(t);
  const { id, file } = await world.retain("Tea at five.", { tags: ["tea"] });
  const edited = world.read(file).replace("source: retain",
    "mood: [good,   # really\n  very good]\nsource: retain   # by hand\nnested:\n  a: {b: c}");
  world.write(file, edited);
  world.now += DAY;
  assert.deepEqual(await world.retain("tea  at five.", { tags: ["drinks"] }),
    { id, stored: "refreshed", file, tags: ["tea", "drinks"] });
  assert.equal(world.read(file),
    edited.replace("updated: 2026-05-27", "updated: 2026-05-28").replace("[tea]", "[tea, drinks]"));
  assert.deepEqual(world.files(), [file]);
});

test("edits by hand are seen at the next use", async (t) => {
  const world = await World.make(t);
  const { file } = await world.retain("The sky is green.");
  world.write(file, world.read(file).replace("green", "blue")
    .replace("tags: []", "tags:\n  - sky   # of course\n  - 'it''s up'"));
  const { memories } = await world.tool("recall", { query: "sky blue" });
  assert.deepEqual([memories[0].text, memories[0].tags], ["The sky is blue.", ["sky", "it's up"]]);
  rmSync(join(world.folder(), file));
  assert.deepEqual(await world.found("sky"), []);
});

test("a file without front matter is a memory, and its name is its id", async (t) => {
  const world = await World.make(t);
  world.write("Cats and dogs.md", "Feed the cats.\r\n");
  world.write("windows.md", "\ufeff---\r\ntags: cats, mice\r\n---\r\nMice too.\r\n");
  assert.deepEqual(await world.found("feed"), ["Feed the cats."]);
  assert.equal((await world.retain("feed the cats.")).id, "Cats and dogs");
  assert.equal(world.read("Cats and dogs.md"), "Feed the cats.\r\n");
  await world.retain("Mice too.", { tags: ["mice"] });
  assert.equal(world.read("windows.md"),
    "\ufeff---\r\ntags: cats, mice\r\nupdated: 2026-05-27T12:00:00Z\r\n---\r\nMice too.\r\n");
  await world.tool("forget", { id: "Cats and dogs" });
  assert.deepEqual(world.files(), ["windows.md"]);
});

test("what cannot be read is left alone, logged once and listed", async (t) => {
  const world = await World.make(t);
  const good = await world.retain("This one is good.");
  const broken = {
    "bad-comment.md": "---\ntags: [a, # b\n  c]\n---\nx",
    "bad-date.md": "---\ncreated: yesterday\n---\nx",
    "bad-escape.md": '---\nid: "\\q"\n---\nx',
    "bad-line.md": "---\nid: a\nwhat is this\n---\nx",
    "bad-list.md": "---\ntags: [a, b\n---\nx",
    "bad-pin.md": "---\npinned: maybe\n---\nx",
    "copy.md": world.read(good.file),
    "empty.md": "",
    "endless.md": "---\nid: a\nx",
    "large.md": "x".repeat(64 * 1024 + 1),
    "no-utf8.md": Buffer.from([0x66, 0xff, 0xfe]),
    "twice.md": "---\nid: a\nid: b\n---\nx",
  };
  for (const [name, text] of Object.entries(broken)) world.write(name, text);
  execFileSync("mkfifo", [join(world.folder(), "pipe.md")]);
  mkdirSync(join(world.folder(), "folder.md"));
  const { unreadable, total } = await world.tool("list_tags");
  assert.equal(total, 1);
  const problems = Object.fromEntries(unreadable.map(({ file, problem }) => [file, problem]));
  assert.deepEqual(Object.keys(problems).sort(), [...Object.keys(broken), "pipe.md"].sort());
  assert.match(problems["bad-date.md"], /created is no date: "yesterday"/);
  assert.match(problems["bad-line.md"], /line 3 .*is no "key: value"/);
  assert.match(problems["copy.md"], /has the id of 2026-05-27-this-one/);
  assert.match(problems["endless.md"], /has no end/);
  assert.match(problems["no-utf8.md"], /not UTF-8/);
  assert.equal((await world.tool("recall", { query: "good" })).unreadable_files, 13);
  assert.equal(world.warnings().length, 12); // not of the copy, which can be read
  for (const [name, text] of Object.entries(broken)) {
    await assert.rejects(world.tool("forget", { id: name.replace(/\.md$/, "") }), /there is no memory with the id/);
    assert.equal(world.read(name), text.toString());
  }
});

test("links are not followed, wherever they are", async (t) => {
  const world = await World.make(t);
  await world.retain("Mine.");
  writeFileSync(join(world.base, "secret.md"), "A secret.");
  symlinkSync(join(world.base, "secret.md"), join(world.folder(), "link.md"));
  assert.deepEqual(await world.found("secret"), []);
  assert.deepEqual(world.warnings(), ["link.md: it is a link, and links are not followed"]);
  mkdirSync(join(world.base, "elsewhere"));
  symlinkSync(join(world.base, "elsewhere"), world.folder(RESEARCHER));
  await assert.rejects(world.retain("Astray.", {}, { agent: RESEARCHER }), /links are not followed/);
  assert.deepEqual(readdirSync(join(world.base, "elsewhere")), []);
  symlinkSync(join(world.base, "elsewhere"), join(world.folder(), "trash"));
  const { memories } = await world.tool("recall", { query: "mine" });
  await assert.rejects(world.tool("forget", { id: memories[0].id }), /links are not followed/);
  assert.deepEqual(await world.found("mine"), ["Mine."]);
});

test("what is forgotten is kept in the trash, or gone", async (t) => {
  const world = await World.make(t);
  const { id, file } = await world.retain("Old news.");
  const text = world.read(file);
  assert.deepEqual(await world.tool("forget", { id }), { forgotten: id, file, kept_as: `trash/${file}` });
  assert.equal(readFileSync(join(world.folder(), "trash", file), "utf8"), text);
  assert.deepEqual(await world.found("news"), []);
  const again = await world.retain("Old news.");
  assert.equal((await world.tool("forget", { id: again.id })).kept_as, `trash/${file.replace(".md", "-2.md")}`);
  const third = await world.retain("Old news.");
  const config = { keep_forgotten: false };
  assert.deepEqual(await world.tool("forget", { id: third.id }, { config }), { forgotten: third.id, file });
  assert.equal(existsSync(join(world.folder(), file)), false);
  await assert.rejects(world.tool("forget", { id: third.id }), /there is no memory with the id/);
});

test("a memory is no longer than the setting says", async (t) => {
  const world = await World.make(t, { entry_chars: 200 });
  await assert.rejects(world.retain("x".repeat(201)),
    { code: -32602, message: /201 characters, and a memory may have 200/ });
  await assert.rejects(world.retain(" \n\u0000 "), { code: -32602 });
  await world.retain("x".repeat(200));
});

test("each agent has its own folder, or all of a project one", async (t) => {
  const world = await World.make(t);
  await world.retain("Of the primary.");
  await world.retain("Of the researcher.", {}, { agent: RESEARCHER });
  assert.deepEqual(await world.found("of the"), ["Of the primary."]);
  assert.deepEqual(await world.found("of the", {}, { agent: RESEARCHER }), ["Of the researcher."]);
  const config = { isolation: "project" };
  await world.retain("Of both.", {}, { agent: RESEARCHER, config });
  assert.deepEqual(await world.found("of", {}, { config }), ["Of both."]);
  assert.deepEqual(await world.found("of", {}, { project: "other", config }), []);
  assert.deepEqual(readdirSync(world.path("music")).sort(), ["primary", RESEARCHER, "shared"]);
});

test("a store in the project has no folder for it", async (t) => {
  const world = await World.make(t, { store: "project:/memory" });
  await world.retain("Here.");
  assert.deepEqual(readdirSync(world.path()).sort(), ["README.md", "primary"]);
});

test("a store out of reach, and a caller without a project, are told so", async (t) => {
  const world = await World.make(t);
  await assert.rejects(world.retain("x", {}, { config: { store: "config:/else" } }), /config:\/else is not there/);
  await assert.rejects(world.retain("x", {}, { config: { store: "/etc" } }), /nowhere that this process can reach/);
  await assert.rejects(world.retain("x", {}, { config: { store: "config:/../x" } }), /nowhere/);
  await assert.rejects(world.host.tool("retain", { content: "x" }), { code: -32006 });
  await assert.rejects(world.retain("x", {}, { agent: "../x" }), /cannot be the name of a folder/);
});

test("halves of characters do no harm", async (t) => {
  const world = await World.make(t, { entry_chars: 200 });
  world.write("half.md", '---\nid: "\\ud83d"\ntags: ["\\udc00", "a\\nb"]\n---\nhalf');
  const transcript = [{ id: "1", role: "user", content: `note: ${"x".repeat(199)}🙂` }];
  await world.hook("on_session_idle", { transcript });
  const { memories } = await world.tool("recall", { query: "", limit: 2 });
  assert.deepEqual(memories.map(({ text }) => text).sort(), ["half", "x".repeat(199)]);
  const half = memories.find(({ text }) => text === "half");
  assert.deepEqual([half.id, half.tags], ["\ufffd", ["\ufffd", "a b"]]);
});

test("nothing half written is left, and files of others are not replaced", async (t) => {
  const world = await World.make(t);
  const { file } = await world.retain("Whole.");
  assert.deepEqual(readdirSync(world.folder()), [file]);
  assert.equal(lstatSync(join(world.folder(), file)).nlink, 1);
  appendFileSync(join(world.folder(), "2026-05-27-mine.md"), "by hand");
  assert.equal((await world.retain("Mine")).file, "2026-05-27-mine-2.md");
  assert.equal(world.read("2026-05-27-mine.md"), "by hand");
});

test("dates of people are read, with and without a zone", async (t) => {
  const world = await World.make(t);
  const dates = { "2026-05-26": -1.5 * DAY, "2026-05-27 11:00": -DAY / 24, "2026-05-27T14:00:00+02:00": 0 };
  for (const [index, date] of Object.keys(dates).entries())
    world.write(`${index}.md`, `---\ncreated: ${date}\n---\nnumber ${index}`);
  const { memories } = await world.tool("recall", { query: "" });
  assert.deepEqual(memories.map(({ created }) => Date.parse(created) - NOON).reverse(), Object.values(dates));
});
