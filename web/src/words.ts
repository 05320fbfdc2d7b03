// Figures and times in words, as the command line has them.
export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return `${count >= 100 || unit === 0 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

export function micros(us: number): string {
  if (us === 0) return "–";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${us < 10_000 ? (us / 1000).toFixed(1) : Math.round(us / 1000)} ms`;
  return `${(us / 1_000_000).toFixed(1)} s`;
}

export const rate = (perSecond: number): string => (perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond)));
export const count = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
export const plural = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`;

export function span(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export function ago(time: string, now = Date.now()): string {
  const ms = now - Date.parse(time);
  if (ms < 0) return `in ${span(-ms)}`;
  return ms < 5000 ? "now" : `${span(ms)} ago`;
}

const two = (value: number): string => String(value).padStart(2, "0");
export const hour = (at: Date): string => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
export const clock = (time: string): string => {
  const at = new Date(time);
  const today = new Date().toDateString() === at.toDateString();
  return today ? hour(at) : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${hour(at)}`;
};

// Escape sequences and other controls as what they are, so that they do nothing.
export const harmless = (text: string): string =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (sign) => {
    const code = sign.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\\u${code.toString(16).padStart(4, "0")}`;
  });

export const pretty = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";
