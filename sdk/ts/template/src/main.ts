import { plugin } from "./plugin.js";

plugin.start();
