// A line over the last minutes.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 132;
const SHOWN = 5 * 60; // seconds
const SHORTEST = 30; // of a page that was just opened

interface ChartProps {
  label: string;
  times: number[]; // seconds
  lines: { values: (number | null)[]; colour: string }[]; // the name of a colour of style.css
  unit?: (value: number) => string;
}

export function Chart({ label, times, lines, unit = String }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [times, ...lines.map((line) => line.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = box.current!;
    const style = getComputedStyle(element);
    const colour = (name: string) => () => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    plot.current = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { range: (_, min, max) => [max - Math.min(Math.max(max - min, SHORTEST), SHOWN), max] }, y: { range: (_, __, max) => [0, Math.max(max * 1.15, 1)] } },
        axes: [
          { ...axis, size: 24, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en-GB", tick % 60 === 0 ? { hour: "2-digit", minute: "2-digit" } : undefined)), incrs: [10, 30, 60], space: 70 },
          { ...axis, size: 58, values: (_, ticks) => ticks.map(unit), space: 36 },
        ],
        series: [{}, ...lines.map((line) => ({ stroke: colour(line.colour), width: 1.6, points: { show: false } }))],
      },
      latest.current,
      element,
    );
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => plot.current?.redraw(false);
    dark.addEventListener("change", redraw);
    return () => {
      dark.removeEventListener("change", redraw);
      observer.disconnect();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [times.at(-1)]);
  return <div ref={box} class="chart" role="img" aria-label={label} />;
}
