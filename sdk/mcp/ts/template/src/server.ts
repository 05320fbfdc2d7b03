import { Server } from "./mcp.js";

export const server = new Server("my-plugin", "0.1.0");

function greeting(name: string): string {
  return `${process.env.WORD ?? "Hello"}, ${name}!`;
}

server.tool("greet", "Greets somebody by name.", { name: { type: "string", minLength: 1 } },
  ({ name }) => greeting(String(name)));

server.tool("greet_all", "Greets several people, one after the other, and tells how far it is.",
  { names: { type: "array", items: { type: "string" } } },
  ({ names }, call) => {
    const greetings: string[] = [];
    for (const name of names as string[]) {
      if (call.signal.aborted) break;
      greetings.push(greeting(String(name)));
      call.progress(greetings.length, (names as string[]).length);
    }
    return greetings.join("\n");
  });
