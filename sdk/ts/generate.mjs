// TypeScript types of the schemas that the daemon itself checks against: what an author's editor
// accepts is what kaged accepts. A keyword that it does not know makes a type wider, never wrong.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const SCHEMAS = [
  { file: "plugin-manifest-v1.json", out: "manifest.ts", root: "Manifest" },
  { file: "project-v1.json", out: "project.ts", root: "Project" },
];

const OBJECT = ["properties", "required", "additionalProperties"];
const ARRAY = ["items", "prefixItems"];

const pascal = (name) => name.replace(/(^|[_-])([a-z])/g, (_, __, letter) => letter.toUpperCase());
const key = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));
const comment = (schema, indent) =>
  typeof schema.description === "string" ? `${indent}/** ${schema.description} */\n` : "";
const joined = (parts, glue) =>
  parts.length === 1 ? parts[0] : parts.map((part) => `(${part})`).join(glue);

const refName = (ref) => pascal(ref.slice(ref.lastIndexOf("/") + 1));

function objectType(schema, indent) {
  const inner = `${indent}  `;
  const required = new Set(schema.required ?? []);
  const properties = schema.properties ?? {};
  const names = [...new Set([...Object.keys(properties), ...required])];
  const rest = schema.additionalProperties;
  if (names.length === 0)
    return rest === false ? "Record<string, never>" : `Record<string, ${rest ? type(rest, indent) : "unknown"}>`;
  const lines = names.map((name) => {
    const property = properties[name] ?? {};
    const mark = required.has(name) ? "" : "?";
    return `${comment(property, inner)}${inner}${key(name)}${mark}: ${type(property, inner)};\n`;
  });
  if (rest === true) lines.push(`${inner}[key: string]: unknown;\n`);
  return `{\n${lines.join("")}${indent}}`;
}

function arrayType(schema, indent) {
  const item = schema.items === undefined ? "unknown" : type(schema.items, indent);
  if (schema.prefixItems === undefined) return `Array<${item}>`;
  return `[${schema.prefixItems.map((first) => type(first, indent)).join(", ")}, ...Array<${item}>]`;
}

function namedType(name, schema, indent) {
  switch (name) {
    case "object": return objectType(schema, indent);
    case "array": return arrayType(schema, indent);
    case "integer": return "number";
    case "string": case "number": case "boolean": case "null": return name;
    default: throw new Error(`type ${name} is not known`);
  }
}

// allOf of if/then, each about the same property's const: a union told apart by that property.
function cases(rows, indent) {
  return rows.map((row) => {
    const [[name, test]] = Object.entries(row.if.properties);
    const tag = `{ ${key(name)}: ${type(test, indent)} }`;
    return `${tag} & ${type({ type: "object", ...row.then }, indent)}`;
  }).join(`\n${indent}  | `);
}

function type(schema, indent = "") {
  if (schema === true) return "unknown";
  if (schema === false) return "never";
  const parts = [];
  if (schema.not !== undefined) return "never";
  if (schema.$ref !== undefined) parts.push(refName(schema.$ref));
  if (schema.const !== undefined) parts.push(JSON.stringify(schema.const));
  if (schema.enum !== undefined) parts.push(schema.enum.map((value) => JSON.stringify(value)).join(" | "));
  const types = schema.type !== undefined ? [schema.type].flat()
    : OBJECT.some((keyword) => keyword in schema) ? ["object"]
    : ARRAY.some((keyword) => keyword in schema) ? ["array"] : [];
  if (types.length > 0 && parts.length === 0)
    parts.push(types.map((name) => namedType(name, schema, indent)).join(" | "));
  else if (types.includes("object") && schema.properties !== undefined)
    parts.push(objectType(schema, indent));
  const rows = (schema.allOf ?? []).filter((row) => row.if !== undefined);
  const others = (schema.allOf ?? []).filter((row) => row.if === undefined);
  parts.push(...others.map((row) => type(row, indent)));
  if (rows.length > 0) parts.push(cases(rows, indent));
  for (const any of [schema.anyOf, schema.oneOf])
    if (any !== undefined) parts.push(joined(any.map((row) => type(row, indent)), " | "));
  return parts.length === 0 ? "unknown" : joined(parts, " & ");
}

function module({ file, root }) {
  const schema = JSON.parse(readFileSync(here(`../../schema/${file}`), "utf8"));
  const named = [[root, schema], ...Object.entries(schema.$defs ?? {})];
  const types = named.map(([name, part]) => `${comment(part, "")}export type ${pascal(name)} = ${type(part)};\n`);
  return `// Made of schema/${file} by generate.mjs.\n\n${types.join("\n")}`;
}

mkdirSync(here("src/generated"), { recursive: true });
for (const row of SCHEMAS) writeFileSync(here(`src/generated/${row.out}`), module(row));
