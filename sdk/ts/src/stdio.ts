// The real transport: stdin, and what was stdout. A stray print must not break the protocol, so
// fd 1 becomes stderr before anything is read, and answers go to a copy that only we know.
import { closeSync, openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";

const F_DUPFD_CLOEXEC = 1030;

/** How a plugin reaches its host. */
export interface Transport {
  /** One message, without its newline. */
  write(line: string): void;
  /** One line of the log. */
  log(line: string): void;
  /** Tells what comes in; and once, whatever ends it, of the end. */
  read(onChunk: (chunk: Uint8Array) => void, onEnd: () => void): void;
  /** The plugin has ended. */
  end(): void;
}

function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}

/** Waits as long as the pipe is full: a plugin writes no faster than the host reads. */
function writeAll(fd: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EAGAIN") pause();
      else if (code !== "EINTR") throw error;
    }
  }
}

/** Node has no dup2: the pipe is opened once more by its name in /proc, and then fd 1 as stderr. */
function moveByName(): number {
  closeSync(openSync("/proc/self/fd/2", "a")); // throws while nothing has changed yet
  const out = openSync("/proc/self/fd/1", "a");
  closeSync(1);
  if (openSync("/proc/self/fd/2", "a") !== 1) catchPrints(); // the lowest free number was another
  return out;
}

/** Bun keeps fd 1 open, whatever one says, but reaches the C library. */
function moveByDup(): number {
  const { dlopen } = createRequire(import.meta.url)("bun:ffi");
  const { symbols: libc } = dlopen("libc.so.6", {
    fcntl: { args: ["int", "int", "int"], returns: "int" },
    dup2: { args: ["int", "int"], returns: "int" },
  });
  const out = libc.fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (out < 0 || libc.dup2(2, 1) !== 1) throw new Error("dup2 failed");
  return out;
}

/**
 * Where the system forbids to move it (a pipe of another user), prints are caught in JavaScript;
 * only children that inherit stdout could still write into it.
 */
function catchPrints(): void {
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
  if (process.versions["bun"] !== undefined)
    for (const name of ["log", "info", "debug", "table", "dir"] as const) console[name] = console.error;
}

function moveStdout(): number {
  try {
    return process.versions["bun"] === undefined ? moveByName() : moveByDup();
  } catch {
    catchPrints();
    return 1;
  }
}

export function openStdio(): Transport {
  const out = moveStdout();
  let onEnd = () => {};
  return {
    write(line) {
      try {
        writeAll(out, `${line}\n`);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EPIPE") throw error;
        onEnd(); // the host does not read any more
      }
    },
    log(line) {
      try {
        writeAll(2, `${line}\n`);
      } catch {
        // nobody reads the log, and nobody can be told
      }
    },
    read(onChunk, ended) {
      let over = false;
      onEnd = () => {
        if (!over) ended();
        over = true;
      };
      process.stdin.on("data", (chunk: Buffer) => onChunk(chunk));
      process.stdin.on("end", onEnd);
      process.stdin.on("error", onEnd);
      process.once("SIGTERM", onEnd);
    },
    end() {
      process.exit(0);
    },
  };
}
