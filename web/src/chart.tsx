// Lines over the last minutes.
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { hour } from "./words";

const HEIGHT = 132;

export interface Line {
  name: string;
  values: (number | null)[];
  colour: string; // the name of one of style.css
}
interface ChartProps {
  title: string;
  times: number[]; // seconds
  lines: Line[];
  unit?: (value: number) => string;
  least?: number; // of the upper end of its scale
}

// Values without a neighbour, which no line would show.
const lonely = (plot: uPlot, series: number): number[] =>
  [...(plot.data[series] as (number | null)[])].flatMap((one, at, all) => (one != null && all[at - 1] == null && all[at + 1] == null ? [at] : []));

function optionsOf(element: HTMLElement, lines: Line[], unit: (value: number) => string, least: number): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => () => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.15, least)] } },
    axes: [
      { ...axis, size: 24, values: (_, ticks) => ticks.map((tick) => hour(new Date(tick * 1000)).slice(0, tick % 60 === 0 ? 5 : 8)), incrs: [30, 60, 120, 300], space: 60 },
      { ...axis, size: 58, values: (_, ticks) => ticks.map(unit), space: 36 },
    ],
    series: [{}, ...lines.map((line) => ({ stroke: colour(line.colour), width: 1.6, points: { size: 5, fill: colour(line.colour), show: () => false, filter: lonely } }))],
  };
}

// Keeps it as wide as its box and in the colours of the page; how to leave it.
function draw(made: uPlot, plot: { current: uPlot | null }, element: HTMLElement): () => void {
  plot.current = made;
  const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
  observer.observe(element);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => made.redraw(false);
  dark.addEventListener("change", redraw);
  return () => {
    plot.current = null;
    dark.removeEventListener("change", redraw);
    observer.disconnect();
    made.destroy();
  };
}

// What draws is a file of its own: figures and lists do not wait for it.
export function Chart({ title, times, lines, unit = String, least = 1 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [times, ...lines.map((line) => line.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let leave = () => {};
    let left = false;
    void import("./plot").then(({ Plot }) => {
      if (!left) leave = draw(new Plot(optionsOf(box.current!, lines, unit, least), latest.current, box.current!), plot, box.current!);
    });
    return () => {
      left = true;
      leave();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [times.at(-1)]);
  return (
    <div class="figure chartbox">
      <div class="name">
        {title}
        {lines.map((line) => <span key={line.name} class={`key of-${line.colour}`}>{line.name}</span>)}
      </div>
      <div ref={box} class="chart" role="img" aria-label={`${title}: ${lines.map((line) => line.name).join(", ")}, over the last minutes`} />
    </div>
  );
}
