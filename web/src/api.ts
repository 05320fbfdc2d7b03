// The daemon's API, with the types of its own OpenAPI document (scripts/web --check makes openapi.d.ts).
import { signal } from "@preact/signals";
import type { Operations, Schemas } from "./openapi";

export type { Schemas };
type Operation = keyof Operations;
type Answer<O extends Operation> = Operations[O]["answer"];
interface Request<O extends Operation> {
  path?: Operations[O]["path"];
  query?: Operations[O]["query"];
  body?: Operations[O]["body"];
  headers?: Operations[O]["headers"];
  signal?: AbortSignal;
}

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code = "",
    readonly hint = "",
    readonly problems: Schemas["Problem"][] = [],
  ) {
    super(message);
  }
}

// Who asks; null: nobody that the daemon knows; undefined: it was not asked yet.
export const session = signal<Schemas["Session"] | null | undefined>(undefined);

function urlOf(template: string, path: Record<string, unknown>, query: Record<string, unknown>): string {
  const url = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(path[name])));
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") words.set(name, String(value));
  return words.size > 0 ? `${url}?${words}` : url;
}

async function errorOf(answer: Response): Promise<ApiError> {
  const body = (await answer.json().catch(() => null)) as Partial<Schemas["Error"] & Schemas["Error"]["error"]> | null;
  if (answer.status === 401) session.value = null;
  const told = body?.error ?? body; // those of the catalog's routes are flat
  if (!told?.message) return new ApiError(`the daemon answered ${answer.status}`, answer.status);
  const { message, code, hint, problems } = told;
  return new ApiError(message, answer.status, code, hint, problems);
}

const silence = (): ApiError => new ApiError("the daemon does not answer", 0, "", "it may have been stopped; kaged status says so");
const proof = (): Record<string, string> => (session.value?.csrf ? { "X-Kaged-CSRF": session.value.csrf } : {});

declare global {
  interface Window {
    asked?: Map<string, Promise<Response>>; // by first.ts
  }
}
function takeAsked(method: string, url: string): Promise<Response> | undefined {
  const answer = method === "GET" ? window.asked?.get(url) : undefined;
  if (answer) window.asked!.delete(url);
  return answer;
}

// The answer as it comes; one that is an error is thrown.
export async function send<O extends Operation>(operation: O, request: Request<O> = {}): Promise<Response> {
  const [method, template] = operation.split(" ");
  const headers: Record<string, string> = { ...proof(), ...(request.headers as Record<string, string> | undefined) };
  if (request.body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    const url = urlOf(template, request.path ?? {}, request.query ?? {});
    answer = await (takeAsked(method, url) ?? fetch(url, {
      method,
      headers,
      body: request.body === undefined ? undefined : JSON.stringify(request.body),
      signal: request.signal,
    }));
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw silence();
  }
  if (!answer.ok) throw await errorOf(answer);
  return answer;
}

export async function call<O extends Operation>(operation: O, request: Request<O> = {}): Promise<Answer<O>> {
  const answer = await send(operation, request);
  return answer.status === 204 ? (undefined as Answer<O>) : ((await answer.json()) as Answer<O>);
}

// A file as the field `file` of a form. fetch would not tell how much of it is sent.
export function upload<O extends Operation>(operation: O, path: Operations[O]["path"], file: File, tell: (part: number) => void): Promise<Answer<O>> {
  const [method, template] = operation.split(" ");
  const form = new FormData();
  form.set("file", file);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, urlOf(template, path, {}));
    for (const [name, value] of Object.entries(proof())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => tell(event.loaded / Math.max(event.total, 1));
    request.onerror = () => reject(silence());
    request.onload = () => {
      const answer = new Response(request.responseText, { status: request.status });
      if (answer.ok) answer.json().then(resolve, reject);
      else errorOf(answer).then(reject);
    };
    request.send(form);
  });
}

async function* textLines(answer: Response): AsyncGenerator<string> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const parts = (rest + (value ?? "")).split("\n");
    rest = done ? "" : parts.pop()!;
    yield* parts;
    if (done) return;
  }
}
// One JSON object a line, each as soon as it is there.
export async function* lines(answer: Response): AsyncGenerator<Record<string, unknown>> {
  for await (const line of textLines(answer)) if (line !== "") yield JSON.parse(line);
}
// Server-sent events, each with one line of JSON.
export async function* events(answer: Response): AsyncGenerator<{ event: string; data: Record<string, unknown> }> {
  let event = "";
  for await (const line of textLines(answer)) {
    if (line.startsWith("event: ")) event = line.slice(7);
    if (line.startsWith("data: ")) yield { event, data: JSON.parse(line.slice(6)) };
  }
}

// Until it is known who asks, what only reads is asked for at once: a view does not wait for two answers in turn.
export const may = (scope: Schemas["Scope"]): boolean =>
  session.value === undefined ? scope.endsWith(":read") : (session.value?.scopes.some((one) => one === scope || one === "admin") ?? false);

export async function enter(): Promise<void> {
  try {
    session.value = await call("GET /api/v1/session");
  } catch (error) {
    if (error instanceof ApiError && error.status !== 0) session.value = null;
    else throw error;
  }
}
