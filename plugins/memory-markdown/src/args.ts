// Arguments of tools, as the manifest has them. The daemon checks them before; other hosts may not.
import { invalidParams, type Params } from "@kaged/plugin-sdk";

interface Kind<Value> {
  words: string;
  fits(value: unknown): value is Value;
}
type Kinds = Record<string, Kind<any>>;
type Value<K> = K extends Kind<infer V> ? V : never;
export type Args<N extends Kinds, O extends Kinds> =
  { [Key in keyof N]: Value<N[Key]> } & { [Key in keyof O]?: Value<O[Key]> };

/** Characters are counted as JSON Schema does. */
export function textOf(least: number, most: number): Kind<string> {
  return {
    words: `a text of ${least} to ${most} characters`,
    fits: (value): value is string =>
      typeof value === "string" && value.length >= least && [...value].length <= most,
  };
}

export function listOf<Item>(item: Kind<Item>, most: number): Kind<Item[]> {
  return {
    words: `a list of at most ${most}, each ${item.words}`,
    fits: (value): value is Item[] =>
      Array.isArray(value) && value.length <= most && value.every((each) => item.fits(each)),
  };
}

export function integerIn(least: number, most: number): Kind<number> {
  return {
    words: `a whole number from ${least} to ${most}`,
    fits: (value): value is number =>
      typeof value === "number" && Number.isInteger(value) && value >= least && value <= most,
  };
}

/** Reads what a tool needs and what it may have, and nothing else. */
export function argsOf<N extends Kinds, O extends Kinds>(needed: N, optional: O): (params: Params) => Args<N, O> {
  const kinds: Kinds = { ...needed, ...optional };
  return (params) => {
    for (const [key, value] of Object.entries(params)) {
      const kind = Object.hasOwn(kinds, key) ? kinds[key]! : null;
      if (kind === null) throw invalidParams(`there is no ${key}`);
      if (!kind.fits(value)) throw invalidParams(`${key} is not ${kind.words}`);
    }
    for (const key of Object.keys(needed))
      if (!Object.hasOwn(params, key)) throw invalidParams(`${key} is missing`);
    return params as Args<N, O>;
  };
}
