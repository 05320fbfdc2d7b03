// What a plugin has stored: its tables, and rows of them. Nothing is written from here.
import { useState } from "preact/hooks";
import { ApiError, call, type Schemas } from "../api";
import { useAsk } from "../ask";
import { Act, Card, Empty, Facts, Said, Shown } from "../ui";
import { bytes, count, harmless } from "../words";

const ROWS = 200;
const quoted = (table: string) => `"${table.replaceAll('"', '""')}"`;
const cellText = (value: unknown): string => (value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value));

function Rows({ rows }: { rows: Schemas["StorageRows"] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Rows">
      <table>
        <thead><tr>{rows.columns.map((one) => <th key={one} scope="col"><Said text={one} /></th>)}</tr></thead>
        <tbody>
          {rows.rows.map((row, index) => (
            <tr key={index}>
              {rows.columns.map((column, at) => {
                const text = harmless(cellText(Array.isArray(row) ? row[at] : row[column]));
                return <td key={column} title={text}>{text.length > 200 ? `${text.slice(0, 200)}…` : text}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.rows.length === 0 && <p class="faint">No rows.</p>}
    </div>
  );
}

function Query({ name, first }: { name: string; first: string }) {
  const [sql, setSql] = useState(first);
  const [rows, setRows] = useState<Schemas["StorageRows"] | null>(null);
  const read = async () => setRows((await call("GET /api/v1/plugins/{name}/storage", { path: { name }, query: { sql } })) as Schemas["StorageRows"]);
  return (
    <>
      <div class="line">
        <input class="mono grow" aria-label="A statement that only reads" placeholder={`SELECT * FROM … LIMIT ${ROWS}`} value={sql} onInput={(event) => setSql(event.currentTarget.value)} onKeyDown={(event) => event.key === "Enter" && (event.currentTarget.nextElementSibling as HTMLButtonElement).click()} />
        <Act disabled={sql.trim() === ""} act={read}>Read</Act>
      </div>
      {rows && <Rows rows={rows} />}
    </>
  );
}

export function Storage({ name }: { name: string }) {
  const [table, setTable] = useState("");
  const asked = useAsk(async () => {
    try {
      return (await call("GET /api/v1/plugins/{name}/storage", { path: { name } })) as Schemas["Storage"];
    } catch (error) {
      if (error instanceof ApiError && error.status > 0 && error.status < 500) return error;
      throw error;
    }
  }, [name]);
  return (
    <Shown asked={asked}>
      {(storage) =>
        storage instanceof ApiError ? (
          <Card><Empty title="It has no storage"><Said text={storage.message} /></Empty></Card>
        ) : (
          <>
            <Card title="Storage" aside={<Act act={asked.again}>Refresh</Act>}>
              <Facts rows={[["File", <code><Said text={storage.file} /></code>], ["Size", `${bytes(storage.bytes)} of at most ${bytes(storage.bytes_max)}`], ["Requests", count(storage.requests)], ["State", storage.damaged ? "damaged; kaged plugin storage NAME --reset starts over" : "OK"]]} />
              {storage.tables.length === 0 ? (
                <Empty title="No tables yet">The plugin has created none.</Empty>
              ) : (
                <ul class="chips" aria-label="Tables">
                  {storage.tables.map((one) => (
                    <li key={one.name}><button type="button" aria-pressed={table === one.name} onClick={() => setTable(one.name)}><Said text={one.name} /> <span class="faint">{one.rows == null ? one.type : count(one.rows)}</span></button></li>
                  ))}
                </ul>
              )}
            </Card>
            {storage.tables.length > 0 && <Card title="Rows"><Query key={table} name={name} first={table ? `SELECT * FROM ${quoted(table)} LIMIT ${ROWS}` : ""} /></Card>}
          </>
        )
      }
    </Shown>
  );
}
