// The plugin's own database, by requests to the host.

export type SqlValue = null | boolean | number | string | Uint8Array;
/** Values by position, or by name without the colon. */
export type SqlParams = readonly SqlValue[] | { readonly [name: string]: SqlValue };
export type Row = Record<string, any>;

/** The rows, with the names of their columns. */
export type Rows<R = Row> = R[] & { readonly columns: string[] };

export interface ExecResult {
  rows_affected: number;
  last_insert_rowid?: number;
  /** Of a statement with RETURNING. */
  rows?: Row[];
  columns?: string[];
}

export interface Statement {
  sql: string;
  params?: SqlParams;
}

export interface Storage {
  /** One statement that only reads. Needs kaged:storage:read. */
  query<R = Row>(sql: string, params?: SqlParams): Promise<Rows<R>>;
  /** One statement, a transaction of its own. Needs kaged:storage:write. */
  exec(sql: string, params?: SqlParams): Promise<ExecResult>;
  /** Several statements: all of them or none. Needs kaged:storage:write. */
  batch(statements: readonly Statement[]): Promise<ExecResult[]>;
  /** The names of the tables. Needs kaged:storage:read. */
  schema(): Promise<string[]>;
}

export type HostRequest = (method: string, params: object) => Promise<any>;

// A blob is {"$blob": BASE64} on the wire, both ways.
function encodeValue(value: SqlValue): unknown {
  return value instanceof Uint8Array ? { $blob: Buffer.from(value).toString("base64") } : value;
}

function encodeParams(params: SqlParams): unknown {
  if (Array.isArray(params)) return params.map(encodeValue);
  return Object.fromEntries(Object.entries(params).map(([key, value]) => [key, encodeValue(value)]));
}

function decodeValue(value: any): unknown {
  const isBlob = value !== null && typeof value === "object" && typeof value.$blob === "string";
  return isBlob ? new Uint8Array(Buffer.from(value.$blob, "base64")) : value;
}

function decodeRows(rows: Row[] | undefined): Row[] {
  return (rows ?? []).map((row) =>
    Object.fromEntries(Object.entries(row).map(([key, value]) => [key, decodeValue(value)])));
}

function decodeExec(result: ExecResult): ExecResult {
  return result.rows === undefined ? result : { ...result, rows: decodeRows(result.rows) };
}

function statement(sql: string, params: SqlParams = []): object {
  return { sql, params: encodeParams(params) };
}

export function createStorage(request: HostRequest): Storage {
  return {
    async query(sql, params) {
      const result = await request("kaged.storage.query", statement(sql, params));
      return Object.assign(decodeRows(result.rows), { columns: result.columns as string[] }) as Rows<any>;
    },
    async exec(sql, params) {
      return decodeExec(await request("kaged.storage.exec", statement(sql, params)));
    },
    async batch(statements) {
      const rows = statements.map((each) => statement(each.sql, each.params));
      const result = await request("kaged.storage.batch", { statements: rows });
      return result.results.map(decodeExec);
    },
    async schema() {
      return (await request("kaged.storage.schema", {})).tables;
    },
  };
}
