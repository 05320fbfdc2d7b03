// A form of the settings of a package. What is sensitive is written here and never shown.
import { useEffect, useState } from "preact/hooks";
import type { Schemas } from "./api";
import { problemsOf, type Schema, SchemaForm, type Values } from "./schema-form";
import { Act, askFirst, note, Said } from "./ui";

export type Setting = Schemas["PackageValues"]["settings"][number];
const TYPES: Record<Setting["type"], string> = { str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object" };
const nameOf = (setting: Setting): string => setting.name || setting.key;
export const isMissing = (setting: Setting): boolean => setting.required && !setting.is_set && setting.default === null;

const sentence = (text: string): string => (/[\p{L}\p{N}]$/u.test(text.trim()) ? `${text.trim()}.` : text);
function helpOf(setting: Setting): string {
  const secret = setting.is_set ? "It is set, and not shown: what you write replaces it." : "It is sealed, and not shown again.";
  const preset = setting.default === null ? "" : setting.sensitive ? "It has a default." : `Default: ${JSON.stringify(setting.default)}.`;
  const need = isMissing(setting) ? "It is required, and has no value yet." : setting.required && "It is required.";
  return [sentence(setting.description), need, preset, setting.sensitive && secret].filter(Boolean).join(" ");
}
function schemaOf(settings: Setting[]): Schema {
  const rows = settings.map((one): [string, Schema] => [one.key, { type: TYPES[one.type], title: nameOf(one), description: helpOf(one), writeOnly: one.sensitive, hidden: one.sensitive && one.is_set }]);
  return { properties: Object.fromEntries(rows), required: settings.filter((one) => one.required).map((one) => one.key) };
}
const shown = (settings: Setting[]): Values => Object.fromEntries(settings.filter((one) => one.is_set && !one.sensitive).map((one) => [one.key, one.value]));

// What differs from before; null: it is not set any more.
function changed(before: Values, now: Values, keys: string[]): Values {
  return Object.fromEntries(keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(now[key])).map((key) => [key, now[key] ?? null]));
}

export function SettingsForm({ settings, save }: { settings: Setting[]; save: (values: Values) => Promise<unknown> }) {
  const [values, setValues] = useState(shown(settings));
  const [round, setRound] = useState(0);
  const stamp = `${round}${JSON.stringify(settings)}`;
  useEffect(() => setValues(shown(settings)), [stamp]);
  if (settings.length === 0) return <p class="faint">It has no settings.</p>;
  const schema = schemaOf(settings);
  const problems = problemsOf({ ...schema, required: [] }, values);
  const changes = changed(shown(settings), values, settings.map((one) => one.key));
  const send = async (sent: Values) => {
    await save(sent);
    note("done", "Saved. It counts from the next load on.");
    setRound((old) => old + 1);
  };
  const remove = (one: Setting) => askFirst({ title: `Remove the value of ${nameOf(one)}?`, yes: "Remove", danger: true, text: <p>It cannot be shown or brought back.</p>, act: () => send({ [one.key]: null }) });
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <div class="stack" key={stamp}><SchemaForm schema={schema} values={values} set={setValues} /></div>
      <div class="actions">
        <Act submits kind="primary" disabled={problems.length > 0 || Object.keys(changes).length === 0} act={() => send(changes)}>Save</Act>
        {problems.length > 0 && <span class="bad"><Said text={problems[0]} /></span>}
        {settings.filter((one) => one.sensitive && one.is_set).map((one) => <Act key={one.key} kind="plain" act={() => remove(one)}>Remove <Said text={nameOf(one)} />…</Act>)}
      </div>
    </form>
  );
}
