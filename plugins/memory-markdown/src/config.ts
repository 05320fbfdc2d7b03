// The settings of the manifest. The daemon has checked them and filled in the defaults.
import type { CaptureRule } from "./capture.js";

export interface Config extends CaptureRule {
  isolation: "agent" | "project";
  store: string;
  tags: string[];
  recall_limit: number;
  recency_weight: number;
  half_life_days: number;
  entry_chars: number;
  inject_chars: number;
  inject_intro: string;
  keep_forgotten: boolean;
}
