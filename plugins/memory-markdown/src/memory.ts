// The plugin: its tools and hooks over the store. All of it runs in one go, without waiting for
// anything, so no call sees half of another.
import {
  createPluginWith, invalidParams, PluginError, type CallContext, type Message, type Params, type Plugin,
} from "@kaged/plugin-sdk";
import { argsOf, integerIn, listOf, textOf } from "./args.js";
import { findWorth, spoken } from "./capture.js";
import type { Config } from "./config.js";
import { cleanLine, cleanText, cutText, formatTime, type Draft } from "./entry.js";
import { MemoryFull, type Folder, type Good } from "./folder.js";
import { Broken } from "./front_matter.js";
import { formatInjection } from "./injection.js";
import { rank, type Ranked } from "./rank.js";
import { takeNew } from "./seen.js";
import { Store, type Environment } from "./store.js";

const TAGS_LISTED_MAX = 500;
const PROBLEMS_LISTED_MAX = 50;
const RESULT_CHARS_MAX = 100_000; // of all texts that a recall gives
const SUBJECT_CHARS_MAX = 8000; // of a conversation, to find what fits it

type Context = CallContext<Config>;

const tagsArg = listOf(textOf(1, 64), 16);
const retainArgs = argsOf({ content: textOf(1, 16_000) }, { context: textOf(0, 500), tags: tagsArg });
const recallArgs = argsOf({ query: textOf(0, 1000) }, { tags: tagsArg, limit: integerIn(1, 50) });
const forgetArgs = argsOf({ id: textOf(1, 255) }, {});
const listArgs = argsOf({}, {});

/** What goes wrong with files is told in words to whoever called. */
function inWords<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    if (error instanceof Broken) throw new PluginError(error.message);
    if (error instanceof MemoryFull)
      throw new PluginError("there are too many memories already; forget some first");
    if (error instanceof Error && "syscall" in error) throw new PluginError(`the store: ${error.message}`);
    throw error;
  }
}

class Memory {
  readonly #store: Store;
  readonly #now: () => number;

  constructor(store: Store, now: () => number) {
    this.#store = store;
    this.#now = now;
  }

  // -- tools

  retain(params: Params, context: Context): object {
    const { content, context: about, tags = [] } = retainArgs(params);
    const text = cleanText(content);
    const most = context.config.entry_chars;
    if (text === "") throw invalidParams("content has no text");
    if (text.length > most)
      throw invalidParams(`content has ${text.length} characters, and a memory may have ${most}: say it in several`);
    const draft = this.#draft(context, "retain", text, tags, about);
    const { file, isNew } = this.#add(this.#store.open(context), context, draft);
    return { id: file.entry.id, stored: isNew ? "new" : "refreshed", file: file.name, tags: file.entry.tags };
  }

  recall(params: Params, context: Context): object {
    const { query, tags = [], limit } = recallArgs(params);
    const { config } = context;
    const folder = this.#store.open(context);
    const ranked = this.#rank(folder, config, query, tags.map(cleanLine));
    const best = ranked.slice(0, limit ?? config.recall_limit);
    return {
      memories: formatResults(best),
      found: ranked.length,
      total: folder.entries.length,
      ...(folder.problems.length > 0 ? { unreadable_files: folder.problems.length } : {}),
    };
  }

  forget(params: Params, context: Context): object {
    const { id } = forgetArgs(params);
    const folder = this.#store.open(context);
    const file = folder.find(id);
    if (file === undefined) throw new PluginError(`there is no memory with the id ${JSON.stringify(id)}`);
    const kept = folder.remove(file, context.config.keep_forgotten);
    return { forgotten: id, file: file.name, ...(kept === null ? {} : { kept_as: kept }) };
  }

  listTags(params: Params, context: Context): object {
    listArgs(params);
    const folder = this.#store.open(context);
    const tags = new Map<string, { tag: string; memories: number; updated: number }>();
    for (const { entry } of folder.entries) {
      for (const tag of entry.tags) {
        const row = tags.get(tag) ?? { tag, memories: 0, updated: 0 };
        tags.set(tag, { tag, memories: row.memories + 1, updated: Math.max(row.updated, entry.updated) });
      }
    }
    const rows = [...tags.values()].sort((a, b) => b.memories - a.memories || (a.tag < b.tag ? -1 : 1));
    return {
      tags: rows.slice(0, TAGS_LISTED_MAX).map((row) => ({ ...row, updated: formatTime(row.updated) })),
      total: folder.entries.length,
      unreadable: folder.problems.slice(0, PROBLEMS_LISTED_MAX),
    };
  }

  // -- hooks

  /** Pinned ones, then the newest. */
  atStart(context: Context): { inject: string } | null {
    const { config } = context;
    const folder = this.#store.open(context);
    const ranked = this.#rank(folder, config, "", []).map(({ file }) => file);
    return this.#inject(folder, config, ranked);
  }

  keepWorth(messages: Message[], source: string, context: Context): null {
    const { config, session_id, agent_path } = context;
    if (config.capture === "off") return null;
    const folder = this.#store.open(context);
    const { fresh, done } = takeNew(folder, `${session_id} ${agent_path}`, messages);
    const worth = findWorth(fresh, config);
    for (const { text, tag } of worth)
      this.#add(folder, context, this.#draft(context, source, cutText(text, config.entry_chars), [tag]));
    if (worth.length > 0) done();
    return null;
  }

  /** What fits what is talked about, without what the model can still read. */
  afterCompaction(gone: Message[], left: Message[], context: Context): { inject: string } | null {
    const { config } = context;
    const folder = this.#store.open(context);
    const standing = left.map(({ content }) => (typeof content === "string" ? content : "")).join("\n");
    const subject = [...gone, ...left].map(spoken).join("\n").slice(-SUBJECT_CHARS_MAX);
    const fitting = this.#rank(folder, config, subject, []).map(({ file }) => file);
    const known = new Set(fitting);
    const others = this.#rank(folder, config, "", []).map(({ file }) => file).filter((file) => !known.has(file));
    const news = [...fitting, ...others].filter(({ entry }) => !standing.includes(`[${entry.id}]`));
    return this.#inject(folder, config, news);
  }

  // -- parts

  #rank(folder: Folder, config: Config, text: string, tags: string[]): Ranked[] {
    return rank(folder, {
      text, tags, now: this.#now(), halfLifeDays: config.half_life_days, recencyWeight: config.recency_weight,
    });
  }

  #inject(folder: Folder, config: Config, files: Good[]): { inject: string } | null {
    const pinned = files.filter(({ entry }) => entry.pinned);
    const sorted = [...pinned, ...files.filter(({ entry }) => !entry.pinned)];
    const text = formatInjection(sorted, folder.entries.length, config.inject_intro, config.inject_chars);
    return text === null ? null : { inject: text };
  }

  #draft(context: Context, source: string, text: string, tags: string[], about = ""): Draft {
    const all = [...tags, ...context.config.tags].map(cleanLine).filter((tag) => tag !== "");
    return {
      created: this.#now(), tags: [...new Set(all)], project: context.project_id!, agent: context.agent_path,
      session: context.session_id, source, context: cleanLine(about) || null, text,
    };
  }

  #add(folder: Folder, { config }: Context, draft: Draft): { file: Good; isNew: boolean } {
    this.#store.explain(config);
    return folder.add(draft);
  }
}

/** Texts are cut where all of them together would be too long. */
function formatResults(ranked: Ranked[]): object[] {
  let left = RESULT_CHARS_MAX;
  return ranked.map(({ file: { name, entry }, score, why }) => {
    const text = cutText(entry.text, left);
    left -= text.length;
    return {
      id: entry.id, score, why, text, ...(text.length < entry.text.length ? { cut: true } : {}),
      tags: entry.tags, created: formatTime(entry.created), updated: formatTime(entry.updated),
      ...(entry.context === null ? {} : { context: entry.context }),
      ...(entry.agent === null ? {} : { agent: entry.agent }), file: name,
    };
  });
}

/** Not started yet: `createMemory().start()`. */
export function createMemory(env: Environment = process.env, now: () => number = Date.now): Plugin<Config> {
  const plugin = createPluginWith<Config>()({
    name: "memory-markdown",
    version: "0.1.0",
    tools: {
      retain: (params, context) => inWords(() => memory.retain(params, context)),
      recall: (params, context) => inWords(() => memory.recall(params, context)),
      forget: (params, context) => inWords(() => memory.forget(params, context)),
      list_tags: (params, context) => inWords(() => memory.listTags(params, context)),
    },
    hooks: {
      on_session_start: (_, context) => inWords(() => memory.atStart(context)),
      on_session_idle: ({ transcript }, context) =>
        inWords(() => memory.keepWorth(transcript, "on_session_idle", context)),
      pre_compact: ({ messages_being_compacted: gone, messages_remaining: left }, context) =>
        inWords(() => memory.keepWorth([...gone, ...left], "pre_compact", context)),
      post_compact: ({ messages_being_compacted: gone, messages_remaining: left }, context) =>
        inWords(() => memory.afterCompaction(gone, left, context)),
    },
  });
  const memory = new Memory(new Store(env, plugin.log), now);
  return plugin;
}
