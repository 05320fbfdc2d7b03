// The real transport: what was stdin, and what was stdout. Both are moved to fds that only we know:
// a stray print goes to stderr, and a child cannot read the host's messages.
import { closeSync, createReadStream, openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import type { Readable } from "node:stream";

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

interface Fds {
  in: number;
  out: number;
}

/**
 * Node has no dup2: a pipe is opened once more by its name in /proc. Then its old number, the lowest
 * that is free, is opened anew: stdin as nothing, stdout as stderr.
 */
function moveByName(): Fds {
  closeSync(openSync("/proc/self/fd/2", "a")); // throws while nothing has changed yet
  const fds = { in: openSync("/proc/self/fd/0", "r"), out: openSync("/proc/self/fd/1", "a") };
  closeSync(0);
  openSync("/dev/null", "r");
  closeSync(1);
  openSync("/proc/self/fd/2", "a");
  return fds;
}

/** Bun keeps fds 0 to 2 open, whatever one says, but reaches the C library. */
function moveByDup(): Fds {
  const { dlopen } = createRequire(import.meta.url)("bun:ffi");
  const { symbols: libc } = dlopen("libc.so.6", {
    fcntl: { args: ["int", "int", "int"], returns: "int" },
    dup2: { args: ["int", "int"], returns: "int" },
  });
  const nothing = openSync("/dev/null", "r");
  const fds = { in: libc.fcntl(0, F_DUPFD_CLOEXEC, 3), out: libc.fcntl(1, F_DUPFD_CLOEXEC, 3) };
  if (fds.in < 0 || fds.out < 0) throw new Error("fds 0 and 1 cannot be copied");
  libc.dup2(nothing, 0);
  libc.dup2(2, 1);
  closeSync(nothing);
  return fds;
}

/**
 * Where the system forbids to move them (pipes of another user), prints are caught in JavaScript;
 * only children that inherit stdin and stdout could still use those.
 */
function catchPrints(): void {
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
  if (process.versions["bun"] !== undefined)
    for (const name of ["log", "info", "debug", "table", "dir"] as const) console[name] = console.error;
}

function moveStdio(): Fds {
  try {
    return process.versions["bun"] === undefined ? moveByName() : moveByDup();
  } catch {
    catchPrints();
    return { in: 0, out: 1 };
  }
}

function openInput(fd: number): Readable {
  try {
    if (fd !== 0 && process.versions["bun"] === undefined) return new Socket({ fd, writable: false });
  } catch {
    // a file
  }
  return fd === 0 ? process.stdin : createReadStream("", { fd, autoClose: false });
}

export function openStdio(): Transport {
  const fds = moveStdio();
  let onEnd = () => {};
  return {
    write(line) {
      try {
        writeAll(fds.out, `${line}\n`);
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
      const input = openInput(fds.in);
      input.on("data", (chunk: Buffer) => onChunk(chunk));
      input.on("end", onEnd);
      input.on("error", onEnd);
      process.once("SIGTERM", onEnd);
    },
    end() {
      process.exit(0);
    },
  };
}
