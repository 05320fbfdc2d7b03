import { createMemory } from "./memory.js";

createMemory().start();
