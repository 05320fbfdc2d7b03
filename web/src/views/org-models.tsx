// Models of an org: one of the operator's, or a provider that the org brings, whose key is written here and never shown.
import { useState } from "preact/hooks";
import { call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, askFirst, Card, Empty, Field, note, Said, Shown } from "../ui";
import { catalogEvents } from "./orgs";

type Model = Schemas["LlmConfig"];
type Wanted = Schemas["LlmConfigWanted"];
const PROVIDERS: Record<Model["provider"], string> = { local: "One of the operator's", openai: "OpenAI, or what speaks as it does", anthropic: "Anthropic" };
const NUMBERS = { context_window: "Context window (optional)", max_tokens: "Tokens of an answer (optional)", temperature: "Temperature (optional)" };
type NumberKey = keyof typeof NUMBERS;
interface Draft extends Record<NumberKey, string> {
  name: string;
  provider: Model["provider"];
  model: string;
  base_url: string;
  api_key: string;
}
const draftOf = (one?: Model): Draft => ({
  name: one?.name ?? "", provider: one?.provider ?? "local", model: one?.model ?? "", base_url: one?.base_url ?? "", api_key: "",
  context_window: String(one?.context_window ?? ""), max_tokens: String(one?.max_tokens ?? ""), temperature: String(one?.temperature ?? ""),
});
const numberOf = (text: string): number | null => (text.trim() === "" ? null : Number(text));

// Without a key that which is there stays.
function wantedOf(draft: Draft): Wanted {
  const own = draft.provider !== "local";
  return {
    name: draft.name.trim(), provider: draft.provider, model: draft.model.trim(),
    ...(own && { base_url: draft.base_url.trim() || null }),
    ...(own && draft.api_key && { api_key: draft.api_key }),
    context_window: numberOf(draft.context_window), max_tokens: numberOf(draft.max_tokens), temperature: numberOf(draft.temperature),
  };
}

function ModelForm({ one, save }: { one?: Model; save: (wanted: Wanted) => Promise<unknown> }) {
  const [draft, setDraft] = useState(draftOf(one));
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const own = draft.provider !== "local";
  const text = (key: "name" | "model" | "base_url" | NumberKey, label: string, help = "") => (
    <Field label={label} help={help}>{(id, described) => <input id={id} aria-describedby={described} autocomplete="off" inputMode={key in NUMBERS ? "decimal" : undefined} value={draft[key]} onInput={(event) => set({ [key]: event.currentTarget.value })} />}</Field>
  );
  const send = () => save(wantedOf(draft)).then(() => setDraft(one ? { ...draft, api_key: "" } : draftOf()));
  const keyHelp = one?.api_key ? "It is set, and not shown: what you write replaces it. Another address needs it again." : "It is sealed, and not shown again.";
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <div class="filters">
        {text("name", "Name")}
        <Field label="Provider">
          {(id) => <select id={id} value={draft.provider} onChange={(event) => set({ provider: event.currentTarget.value as Model["provider"] })}>{Object.entries(PROVIDERS).map(([key, words]) => <option key={key} value={key}>{words}</option>)}</select>}
        </Field>
        {text("model", "Model", own ? "The provider's name of it." : "Its alias in local.toml.")}
        {own && text("base_url", "Address (optional)", "Without it the provider's own. catalog.org_may has to let the org reach it.")}
        {own && <Field label="Key (optional)" help={keyHelp}>{(id, described) => <input id={id} aria-describedby={described} type="password" autocomplete="new-password" value={draft.api_key} onInput={(event) => set({ api_key: event.currentTarget.value })} />}</Field>}
        {(Object.keys(NUMBERS) as NumberKey[]).map((key) => text(key, NUMBERS[key]))}
      </div>
      <div class="actions"><Act submits kind="primary" disabled={!draft.name.trim() || !draft.model.trim()} act={send}>{one ? "Save" : "Add the model"}</Act></div>
    </form>
  );
}

function ModelRow({ one, again }: { one: Model; again: () => void }) {
  const path = { org_id: one.org_id, llm_config_id: one.id };
  const change = (body: Schemas["LlmConfigChange"], words: string) => call("PATCH /api/orgs/{org_id}/llm-configs/{llm_config_id}", { path, body }).then(() => { note("done", words); again(); });
  const remove = () => askFirst({ title: `Delete the model ${one.name}?`, danger: true, yes: "Delete", text: <p>Orchestrators that have it cannot be loaded until they have another one.</p>, act: () => call("DELETE /api/orgs/{org_id}/llm-configs/{llm_config_id}", { path }).then(again) });
  const removeKey = () => askFirst({ title: `Remove the key of ${one.name}?`, danger: true, yes: "Remove", text: <p>It cannot be shown or brought back.</p>, act: () => change({ api_key: null }, "The key is removed.") });
  return (
    <details class="tool">
      <summary><strong><Said text={one.name} /></strong> <span class="tag">{one.provider}</span> {one.api_key && <span class="tag">with a key</span>} <span class="words"><Said text={one.model} /></span></summary>
      <ModelForm key={one.updated_at} one={one} save={(wanted) => change(wanted, "Saved. It counts from the next load on.")} />
      <div class="actions">
        {one.api_key && <Act kind="plain" label={`Remove the key of ${one.name}`} act={removeKey}>Remove the key…</Act>}
        <Act kind="plain" label={`Delete the model ${one.name}`} act={remove}>Delete…</Act>
      </div>
    </details>
  );
}

export function Models({ org }: { org: string }) {
  const asked = useAsk(() => call("GET /api/orgs/{org_id}/llm-configs", { path: { org_id: org } }), [org], { on: catalogEvents });
  const add = (body: Wanted) => call("POST /api/orgs/{org_id}/llm-configs", { path: { org_id: org }, body }).then((made) => { note("done", `The org has the model ${made.name}.`); asked.again(); });
  return (
    <Card title="Models" id="models">
      <Shown asked={asked}>
        {({ llm_configs }) => (llm_configs.length === 0 ? <Empty title="No models">Orchestrators of this org can have those of the operator. Add one here to give it a name, or a provider with a key of the org's own.</Empty> : llm_configs.map((one) => <ModelRow key={one.id} one={one} again={asked.again} />))}
      </Shown>
      <details class="tool"><summary><strong>Add a model</strong></summary><ModelForm save={add} /></details>
    </Card>
  );
}
