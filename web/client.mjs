// Makes TypeScript's view of the API from the daemon's own OpenAPI document, on stdout:
//   Schemas     the shapes by their names
//   Operations  "GET /api/v1/plugins/{name}": what its path, query and headers take, its body and its answer
// usage: node client.mjs OPENAPI.json
import { readFileSync } from "node:fs";

const api = JSON.parse(readFileSync(process.argv[2], "utf8"));
const quote = (text) => JSON.stringify(text);
const nameOf = (reference) => reference.slice(reference.lastIndexOf("/") + 1);

function plainType(schema, type) {
  switch (type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return schema.items ? `(${typeOf(schema.items)})[]` : "unknown[]";
    default:
      return objectType(schema);
  }
}

function objectType(schema) {
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties ?? {}).map(
    ([name, member]) => `${quote(name)}${required.has(name) ? "" : "?"}: ${typeOf(member)}`,
  );
  const more = schema.additionalProperties;
  if (more !== undefined && more !== false)
    members.push(`[member: string]: ${members.length || more === true ? "unknown" : typeOf(more)}`);
  else if (members.length === 0) members.push("[member: string]: unknown");
  return `{ ${members.join("; ")} }`;
}

function typeOf(schema) {
  if (typeof schema !== "object") return "unknown";
  const parts = (schema.allOf ?? []).map(typeOf);
  if (schema.$ref) parts.push(`Schemas[${quote(nameOf(schema.$ref))}]`);
  if ("const" in schema) parts.push(quote(schema.const));
  if (schema.enum) parts.push(`(${schema.enum.map(quote).join(" | ")})`);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) parts.push(`(${choices.map(typeOf).join(" | ")})`);
  if (schema.properties && !schema.type) parts.push(objectType(schema));
  if (schema.type && !schema.enum)
    parts.push(`(${[schema.type].flat().map((type) => plainType(schema, type)).join(" | ")})`);
  return parts.length ? parts.join(" & ") : "unknown";
}

const contentType = (content) => {
  const json = content?.["application/json"];
  return json ? typeOf(json.schema) : content ? "string" : "undefined";
};

function parametersType(operation, where) {
  const known = operation.parameters
    .map((one) => (one.$ref ? api.components.parameters[nameOf(one.$ref)] : one))
    .filter((one) => one.in === where);
  const members = known.map((one) =>
    one.style === "form" ? "[name: string]: unknown" : `${quote(one.name)}${one.required ? "" : "?"}: ${typeOf(one.schema)}`);
  return `{ ${members.join("; ")} }`;
}

function operationType(operation) {
  const good = Object.values(operation.responses).find((answer) => !answer.$ref);
  return `{ path: ${parametersType(operation, "path")}; query: ${parametersType(operation, "query")}; ` +
    `headers: ${parametersType(operation, "header")}; body: ${contentType(operation.requestBody?.content)}; answer: ${contentType(good?.content)} }`;
}

const lines = ["export interface Schemas {"];
for (const [name, schema] of Object.entries(api.components.schemas)) lines.push(`  ${quote(name)}: ${typeOf(schema)};`);
lines.push("}", "export interface Operations {");
for (const [path, methods] of Object.entries(api.paths))
  for (const [method, operation] of Object.entries(methods))
    lines.push(`  ${quote(`${method.toUpperCase()} ${path}`)}: ${operationType(operation)};`);
lines.push("}");
console.log(lines.join("\n"));
