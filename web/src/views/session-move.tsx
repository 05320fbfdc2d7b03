// A session goes back, or forth again. What that would change is told first, and done after a yes.
import { call, type Schemas } from "../api";
import { askFirst, Said } from "../ui";
import { count, plural } from "../words";

type Moved = Schemas["SessionMoved"];
export type Move = { act: "undo" | "redo" } | { act: "rewind"; entry: string };
const QUESTIONS: Record<Move["act"], { title: string; yes: string }> = {
  undo: { title: "Undo the last message?", yes: "Undo it" },
  redo: { title: "Redo the last undo?", yes: "Redo it" },
  rewind: { title: "Go back to here?", yes: "Go back" },
};

const ask = (id: string, move: Move, dry: boolean): Promise<Moved> =>
  move.act === "rewind"
    ? call("POST /api/v1/sessions/{id}/rewind", { path: { id }, body: { entry: move.entry, dry_run: dry } })
    : call(`POST /api/v1/sessions/{id}/${move.act}`, { path: { id }, body: { dry_run: dry } });

function Files({ files }: { files: Moved["files"] }) {
  if (!files) return <p>Files stay as they are: there is no snapshot of them.</p>;
  const more = files.change_count - files.changes.length;
  return (
    <>
      <p>{files.change_count === 0 ? "No file changes." : `${plural(files.change_count, "file")} will change:`}</p>
      <ul class="lines">
        {files.changes.map((one) => <li key={one.path}>{one.change} <code><Said text={one.path} /></code></li>)}
        {more > 0 && <li>and {plural(more, "more file", "more files")}</li>}
        {files.left_out.map((one) => <li key={one.path} class="faint">left alone <code><Said text={one.path} /></code>, <Said text={one.why} /></li>)}
      </ul>
    </>
  );
}

function Plan({ plan }: { plan: Moved }) {
  const back = plan.act === "redo";
  return (
    <>
      <p>{back ? `The session will have ${plural(plan.entries_after, "entry", "entries")} instead of ${count(plan.entries_before)}.` : `${plural(plan.entries_before - plan.entries_after, "entry", "entries")} will no longer be part of the session${plan.said ? ", starting with:" : "."}`}</p>
      {plan.said && <p class="faint"><Said text={plan.said} /></p>}
      <Files files={plan.files} />
      {!back && <p>Nothing is deleted: Redo brings it back.</p>}
    </>
  );
}

export async function askMove(id: string, move: Move, again: () => void): Promise<void> {
  const plan = await ask(id, move, true);
  askFirst({ ...QUESTIONS[move.act], text: <Plan plan={plan} />, act: () => ask(id, move, false).then(again) });
}
