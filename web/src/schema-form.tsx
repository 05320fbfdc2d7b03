// A form of a JSON Schema, as tools declare their arguments. What it does not know it takes as JSON.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Field } from "./ui";
import { harmless, pretty } from "./words";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  enumNames?: string[];
  oneOf?: { const?: unknown; title?: string }[];
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  writeOnly?: boolean; // never shown, not even while it is typed
  hidden?: boolean; // of one that is only written: it has a value
}

export type Values = Record<string, unknown>;
const typeOf = (schema: Schema): string => (Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type) ?? "";

function checkNumber(schema: Schema, value: number): string | null {
  if (typeOf(schema) === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (schema.minimum !== undefined && value < schema.minimum) return `must be ${schema.minimum} or more`;
  if (schema.maximum !== undefined && value > schema.maximum) return `must be ${schema.maximum} or less`;
  return null;
}
function checkText(schema: Schema, value: string): string | null {
  const length = [...value].length;
  if (schema.minLength !== undefined && length < schema.minLength) return `must have ${schema.minLength} characters or more`;
  if (schema.maxLength !== undefined && length > schema.maxLength) return `must have ${schema.maxLength} characters or fewer`;
  try {
    if (schema.pattern && !new RegExp(schema.pattern, "u").test(value)) return `must match ${schema.pattern}`;
  } catch {
    return null; // the daemon knows it better
  }
  return null;
}
export function problemOf(schema: Schema, value: unknown, required: boolean): string | null {
  if (value === undefined) return required ? "is needed" : null;
  if (value instanceof SyntaxError) return "is not JSON";
  if (schema.type === "array" && !Array.isArray(value)) return "must be a list";
  if (schema.type === "object" && (typeof value !== "object" || value === null || Array.isArray(value))) return "must be an object";
  if (typeof value === "number") return Number.isNaN(value) ? "must be a number" : checkNumber(schema, value);
  return typeof value === "string" && !schema.enum ? checkText(schema, value) : null;
}
// What it declares to be so where nobody says otherwise.
export function defaultsOf(schema: Schema): Values {
  return Object.fromEntries(Object.entries(schema.properties ?? {}).filter(([, one]) => one.default !== undefined).map(([name, one]) => [name, one.default]));
}
// The values to choose from, each with its words.
function choicesOf(schema: Schema): [unknown, string][] | null {
  if (schema.enum) return schema.enum.map((one, index) => [one, schema.enumNames?.[index] ?? String(one)]);
  if (schema.oneOf?.every((one) => "const" in one)) return schema.oneOf.map((one) => [one.const, one.title ?? String(one.const)]);
  return null;
}
export function problemsOf(schema: Schema, values: Values): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, one]) => {
    const problem = problemOf(one, values[name], schema.required?.includes(name) ?? false);
    return problem ? [`${harmless(one.title ?? name)} ${problem}`] : [];
  });
}

interface ControlProps {
  schema: Schema;
  value: unknown;
  set: (value: unknown) => void;
  common: { id: string; "aria-describedby": string; "aria-required"?: boolean };
}
// Of a text the value, or why it is none.
function parsed(text: string): unknown {
  try {
    return text.trim() === "" ? undefined : JSON.parse(text);
  } catch (error) {
    return error;
  }
}
function JsonControl({ value, set, common }: ControlProps) {
  const [text, setText] = useState(value === undefined ? "" : pretty(value));
  const take = (next: string) => {
    setText(next);
    set(parsed(next));
  };
  return <textarea {...common} class="mono" rows={4} value={text} placeholder="JSON" spellcheck={false} onInput={(event) => take(event.currentTarget.value)} />;
}
function SecretControl({ schema, set, common }: ControlProps) {
  const take = (text: string) => set(text === "" ? undefined : typeOf(schema) === "string" ? text : parsed(text));
  return <input {...common} type="password" autocomplete="new-password" placeholder={schema.hidden ? "••••••••" : undefined} onInput={(event) => take(event.currentTarget.value)} />;
}
function Control(props: ControlProps) {
  const { schema, value, set, common } = props;
  if (schema.writeOnly) return <SecretControl {...props} />;
  const choices = choicesOf(schema);
  if (choices)
    return (
      <select {...common} value={choices.findIndex(([one]) => one === value)} onChange={(event) => set(choices[Number(event.currentTarget.value)]?.[0])}>
        <option value={-1}>–</option>
        {choices.map(([, words], index) => <option key={index} value={index}>{harmless(words)}</option>)}
      </select>
    );
  switch (typeOf(schema)) {
    case "boolean":
      return (
        <select {...common} value={String(value ?? "")} onChange={(event) => set(event.currentTarget.value === "" ? undefined : event.currentTarget.value === "true")}>
          <option value="">–</option>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      );
    case "integer":
    case "number":
      return <input {...common} type="number" step={typeOf(schema) === "integer" ? 1 : "any"} min={schema.minimum} max={schema.maximum} value={value === undefined ? "" : String(value)} onInput={(event) => set(event.currentTarget.value === "" ? undefined : Number(event.currentTarget.value))} />;
    case "string":
      return <textarea {...common} rows={String(value ?? "").includes("\n") ? 6 : 1} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value === "" ? undefined : event.currentTarget.value)} />;
    default:
      return <JsonControl {...props} />;
  }
}

export function SchemaForm({ schema, values, set }: { schema: Schema; values: Values; set: (values: Values) => void }): ComponentChildren {
  const rows = Object.entries(schema.properties ?? {});
  if (rows.length === 0) return <p class="faint">It takes no arguments.</p>;
  return rows.map(([name, one]) => {
    const required = schema.required?.includes(name) ?? false;
    const problem = values[name] === undefined ? null : problemOf(one, values[name], required);
    return (
      <Field key={name} label={`${harmless(one.title ?? name)}${required ? "" : " (optional)"}`} help={harmless(one.description ?? "")} problem={problem}>
        {(id, described) => <Control schema={one} value={values[name]} set={(value) => set({ ...values, [name]: value })} common={{ id, "aria-describedby": described, "aria-required": required }} />}
      </Field>
    );
  });
}
