// What plugins ask of the operator and wait for. A line says so wherever he is; in the session that it is asked in,
// and when he wants to answer, it is a dialog. Nothing is answered by a key that was meant for something else.
import { useEffect, useLayoutEffect, useId, useRef, useState } from "preact/hooks";
import { call, may, type Schemas } from "./api";
import { useAsk } from "./ask";
import { defaultsOf, problemsOf, type Schema, SchemaForm, type Values } from "./schema-form";
import { Act, Code, Deliberate, note, Said } from "./ui";
import { plural, span } from "./words";

type Question = Schemas["Question"];

function Left({ until }: { until: string | null }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((old) => old + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!until) return null;
  return <>It is cancelled in {span(Math.max(0, Date.parse(until) - Date.now()))} if nobody answers.</>;
}

interface AskProps {
  question: Question;
  later: () => void;
  done: () => void;
}
function Ask({ question, later, done }: AskProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  const isUrl = question.kind === "url";
  const schema = (question.schema ?? {}) as Schema;
  const [values, setValues] = useState<Values>(() => defaultsOf(schema));
  const wrong = isUrl ? [] : problemsOf(schema, values);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const answer = async (action: Schemas["QuestionAnswer"]["action"]) => {
    await call("POST /api/v1/sessions/{id}/questions/{question}", {
      path: { id: question.session_id, question: question.id },
      body: { action, ...(action === "accept" && !isUrl && { content: values }) },
    });
    done();
  };
  return (
    <dialog ref={dialog} class="ask" aria-labelledby={title} onClose={later}>
      <h2 id={title}><Said text={question.plugin} /> asks</h2>
      <div class="stack">
        <p class="asked"><Said text={question.title} /></p>
        {isUrl ? <><p>It asks you to open this page. Check the address first; it is not opened from here:</p><Code text={question.url ?? ""} label="The page" /></> : Object.keys(schema.properties ?? {}).length > 0 && <SchemaForm schema={schema} values={values} set={setValues} />}
        <p class="faint">Your answer goes only to this plugin. <Left until={question.deadline_at} /></p>
      </div>
      <div class="actions end">
        <button type="button" class="plain" onClick={later}>Later</button>
        <Act act={() => answer("decline")}>Decline</Act>
        <Deliberate disabled={wrong.length > 0} act={() => answer("accept")}>{isUrl ? "I opened it" : "Answer"}</Deliberate>
      </div>
    </dialog>
  );
}

export function Questions({ place }: { place: string[] }) {
  const asked = useAsk(() => (may("sessions:read") ? call("GET /api/v1/questions") : Promise.resolve({ questions: [] })), [], { on: (one) => one.type === "question" });
  const [looked, setLooked] = useState("");
  const [aside, setAside] = useState<string[]>([]);
  const waiting = asked.value?.questions ?? [];
  const here = place[0] === "sessions" ? place[1] : undefined;
  const shown = may("sessions:write") ? (waiting.find((one) => one.id === looked) ?? waiting.find((one) => one.session_id === here && !aside.includes(one.id))) : undefined;
  const answered = useRef("");
  const before = useRef<Question | undefined>(undefined);
  useEffect(() => {
    const gone = before.current;
    if (gone && gone.id !== answered.current && asked.value && !waiting.some((one) => one.id === gone.id)) note("failed", `The question of ${gone.plugin} is no longer open.`, "Somebody else answered it, it timed out, or the call ended.");
    before.current = shown;
  }, [shown?.id, asked.value]);
  const others = waiting.filter((one) => one !== shown);
  return (
    <>
      {others.length > 0 && (
        <div class="asks" role="status">
          <span><strong><Said text={others[0].plugin} /></strong> asks: <Said text={others[0].title} />{others.length > 1 && ` (and ${plural(others.length - 1, "more question")})`}</span>
          {may("sessions:write") && <button type="button" onClick={() => setLooked(others[0].id)}>Answer…</button>}
        </div>
      )}
      {shown && (
        <Ask
          key={shown.id}
          question={shown}
          later={() => {
            setLooked("");
            setAside((old) => [...old, shown.id]);
          }}
          done={() => {
            answered.current = shown.id;
            asked.again();
          }}
        />
      )}
    </>
  );
}
