// Settings that a plugin declares for its operator, as controls. A value is checked as its knob says before it
// is sent, and written to the project's file.
import { useEffect, useState } from "preact/hooks";
import { call, may, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, Card, Field, note, Said, Shown } from "../ui";
import { harmless } from "../words";

type Knob = Schemas["Knob"];
interface Declared extends Knob {
  min?: number;
  max?: number;
  step?: number;
  values?: string[];
  labels?: Record<string, string>;
  max_length?: number;
  pattern?: string;
  prefixes?: string[];
  must_exist?: boolean;
  filter?: string;
}
interface ControlProps {
  knob: Declared;
  value: unknown;
  set: (value: unknown) => void;
  id: string;
  described: string;
  models: string[];
}

const ORIGINS: Record<Knob["origin"], string> = {
  schema: "the default of its schema",
  operator: "local.toml",
  primary: "the primary agent's declaration",
  agent: "this agent's declaration",
  knob: "the default of the knob",
};

function textProblem(knob: Declared, text: string): string | null {
  if (knob.max_length !== undefined && [...text].length > knob.max_length) return `must have ${knob.max_length} characters or fewer`;
  try {
    if (knob.pattern && !new RegExp(knob.pattern, "u").test(text)) return `must match ${knob.pattern}`;
  } catch {
    return null; // the daemon knows it better
  }
  return null;
}
function numberProblem(knob: Declared, value: unknown): string | null {
  if (typeof value !== "number" || Number.isNaN(value)) return "must be a number";
  if (knob.type === "int_range" && !Number.isInteger(value)) return "must be a whole number";
  if ((knob.min !== undefined && value < knob.min) || (knob.max !== undefined && value > knob.max)) return `must be from ${knob.min} to ${knob.max}`;
  return null;
}
const CHECKS: Record<string, (knob: Declared, value: unknown) => string | null> = {
  range: numberProblem,
  int_range: numberProblem,
  enum: (knob, value) => (knob.values?.includes(String(value)) ? null : "must be one of its values"),
  boolean: () => null,
  text: (knob, value) => (String(value).includes("\n") ? "must be one line" : textProblem(knob, String(value))),
  multiline: (knob, value) => textProblem(knob, String(value)),
  model_alias: () => null,
  path: (knob, value) => (!knob.prefixes || knob.prefixes.some((one) => String(value).startsWith(one)) ? null : `must begin with ${knob.prefixes.join(" or ")}`),
};

function Slider({ knob, value, set, id, described }: ControlProps) {
  return (
    <div class="line">
      <input id={id} aria-describedby={described} class="grow" type="range" min={knob.min} max={knob.max} step={knob.step ?? "any"} value={String(value ?? knob.min ?? 0)} onInput={(event) => set(Number(event.currentTarget.value))} />
      <input class="figureinput" aria-label={`${knob.label ?? knob.name}, as a number`} type="number" min={knob.min} max={knob.max} step={knob.step ?? "any"} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value === "" ? NaN : Number(event.currentTarget.value))} />
    </div>
  );
}
const CONTROLS: Record<string, (props: ControlProps) => preact.JSX.Element> = {
  range: Slider,
  int_range: Slider,
  enum: ({ knob, value, set, id, described }) => (
    <select id={id} aria-describedby={described} value={String(value)} onChange={(event) => set(event.currentTarget.value)}>
      {!knob.values?.includes(String(value)) && <option value={String(value)}>–</option>}
      {knob.values?.map((one) => <option key={one} value={one}>{harmless(knob.labels?.[one] ?? one)}</option>)}
    </select>
  ),
  boolean: ({ value, set, id, described }) => <input id={id} aria-describedby={described} type="checkbox" role="switch" checked={value === true} onChange={(event) => set(event.currentTarget.checked)} />,
  text: ({ value, set, id, described }) => <input id={id} aria-describedby={described} autocomplete="off" value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />,
  multiline: ({ value, set, id, described }) => <textarea id={id} aria-describedby={described} rows={4} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />,
  model_alias: ({ value, set, id, described, models }) => (
    <>
      <input id={id} aria-describedby={described} list={`${id}-models`} placeholder="none" value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value || null)} />
      <datalist id={`${id}-models`}>{models.map((one) => <option key={one} value={one} />)}</datalist>
    </>
  ),
  path: ({ value, set, id, described }) => <input id={id} aria-describedby={described} class="mono" spellcheck={false} value={String(value ?? "")} onInput={(event) => set(event.currentTarget.value)} />,
};

interface KnobProps {
  knob: Declared;
  where: { project?: string; agent?: string };
  plugin: string;
  models: string[];
  again: () => void;
}
function KnobRow({ knob, where, plugin, models, again }: KnobProps) {
  const [value, setValue] = useState<unknown>(knob.value);
  useEffect(() => setValue(knob.value), [JSON.stringify(knob.value)]);
  const control = CONTROLS[knob.type] ?? CONTROLS.text;
  const changed = JSON.stringify(value) !== JSON.stringify(knob.value);
  const problem = changed && value !== null ? (CHECKS[knob.type] ?? (() => null))(knob, value) : null;
  const writable = may("projects:write") && !!where.project;
  const write = async (wanted: unknown) => {
    await call("PUT /api/v1/plugins/{name}/knobs/{knob}", { path: { name: plugin, knob: knob.name }, query: where, body: { value: wanted } });
    note("done", `${knob.label ?? knob.name} is written to the project's file.`);
    again();
  };
  const help = (
    <>
      <Said text={knob.description} /> {knob.hidden ? "Its value is not shown. " : ""}
      <span>From {ORIGINS[knob.origin]}.</span>
    </>
  );
  return (
    <div class="knob">
      <Field label={harmless(knob.label ?? knob.name)} help={help} problem={problem}>
        {(id, described) => control({ knob, value, set: setValue, id, described, models })}
      </Field>
      {writable && (changed || knob.origin === "agent") && (
        <div class="actions">
          {changed && <Act kind="primary" disabled={!!problem} label={`Write ${knob.label ?? knob.name}`} act={() => write(value)}>Write</Act>}
          {changed && <Act kind="plain" act={() => setValue(knob.value)}>Undo</Act>}
          {!changed && knob.origin === "agent" && <Act kind="plain" label={`${knob.label ?? knob.name}: back to the default`} act={() => write(null)}>Back to the default</Act>}
        </div>
      )}
    </div>
  );
}

interface KnobsProps {
  plugin: string;
  title?: string;
  project?: string;
  agent?: string;
  models?: string[];
  within?: boolean; // a card that is there
}
export function Knobs({ plugin, title = "Knobs", project, agent, models = [], within }: KnobsProps) {
  const where = { project, agent };
  const asked = useAsk(() => call("GET /api/v1/plugins/{name}/knobs", { path: { name: plugin }, query: where }), [plugin, project, agent], {
    on: (one) => one.type === "audit" && (one.event === "plugin.knob_write" || one.event === "project.reloaded"),
  });
  return (
    <Shown asked={asked}>
      {({ knobs }) => {
        if (knobs.length === 0) return <></>;
        const rows = <div class="knobs">{knobs.map((knob) => <KnobRow key={knob.name} knob={knob as Declared} where={where} plugin={plugin} models={models} again={asked.again} />)}</div>;
        return within ? <section class="stack"><h3><Said text={title} /></h3>{rows}</section> : <Card title={harmless(title)}>{!project && <p class="faint">These are the defaults. The project's view sets them for its agents.</p>}{rows}</Card>;
      }}
    </Shown>
  );
}
