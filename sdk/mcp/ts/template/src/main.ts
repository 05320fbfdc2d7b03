import { server } from "./server.js";

await server.run(process.stdin, process.stdout);
