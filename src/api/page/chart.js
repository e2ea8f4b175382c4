// The chosen room's last minutes: offered and passed, the 10 s rate against baseline and threshold, the level below.

import { clock, draw, number, rate } from "/dom.js";

const LEFT = 44;
const RIGHT = 92;
const TOP = 10;
const STAIRS = 62;
const AXIS = 20;
const SPAN_MS = 180_000;

/** Draws the points into an SVG; `hover` is an event time to read off, or null. Returns the point read. */
export function chart(svg, points, hover) {
  const { width, height } = svg.getBoundingClientRect();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (points.length === 0 || width < 120) {
    svg.replaceChildren();
    return null;
  }
  const frame = scales(points, width, height);
  const parts = [...grid(frame), ...curves(points, frame), ...stairs(points, frame)];
  const read = hover === null ? null : nearest(points, hover);
  if (read) {
    const x = frame.x(read.t);
    parts.push(draw("line", { class: "hair", x1: x, x2: x, y1: TOP, y2: height - AXIS }));
  }
  svg.replaceChildren(...parts);
  return read;
}

/** The event time under a pointer. */
export function timeAt(svg, clientX, points) {
  const box = svg.getBoundingClientRect();
  const last = points.at(-1)?.t ?? 0;
  const share = (clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
  return last - SPAN_MS * (1 - Math.min(1, Math.max(0, share)));
}

function nearest(points, t) {
  return points.reduce((best, p) => (Math.abs(p.t - t) < Math.abs(best.t - t) ? p : best));
}

function scales(points, width, height) {
  const last = points.at(-1).t;
  const bottom = height - AXIS - STAIRS - 14;
  const loudest = Math.max(4, ...points.map((p) => Math.max(p.rate_1s, p.rate_10s, p.baseline ?? 0)));
  const next = points.at(-1).threshold;
  // A threshold far above would press the curve to the ground; then its label stands at the top.
  const top = next !== null && next <= loudest * 2.2 ? Math.max(loudest, next) : loudest;
  const step = nice(top / 3);
  const ceiling = Math.max(step, Math.ceil((top * 1.04) / step) * step);
  return {
    width, height, bottom, step, ceiling, last,
    right: width - RIGHT,
    x: (t) => LEFT + (width - LEFT - RIGHT) * (1 - (last - t) / SPAN_MS),
    y: (v) => bottom - (bottom - TOP) * Math.min(1, Math.max(0, v / ceiling)),
    level: (l) => height - AXIS - 4 - (l / 3) * (STAIRS - 12),
  };
}

/** 1, 2 or 5 times a power of ten, not below `x`. */
function nice(x) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(x, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * ten).find((m) => m >= x) ?? 10 * ten;
}

function grid(f) {
  const parts = [];
  for (let v = 0; v <= f.ceiling + f.step / 2; v += f.step) {
    const y = f.y(v);
    parts.push(draw("line", { class: "grid", x1: LEFT, x2: f.right, y1: y, y2: y }));
    parts.push(label(LEFT - 8, y + 4, "end", number(v, f.step < 1 ? 1 : 0)));
  }
  for (let l = 0; l <= 3; l += 1) {
    const y = f.level(l);
    parts.push(draw("line", { class: "grid", x1: LEFT, x2: f.right, y1: y, y2: y }));
    if (l === 0 || l === 3) parts.push(label(LEFT - 8, y + 4, "end", String(l)));
  }
  parts.push(label(f.right + 8, f.level(1.5) + 4, "start", "level"));
  // On a phone four times would run into each other.
  const apart = f.right - LEFT < 260 ? 90 : 60;
  for (let back = 0; back <= 180; back += apart) {
    const t = f.last - back * 1000;
    const anchor = back === 0 ? "end" : back === 180 ? "start" : "middle";
    parts.push(label(f.x(t), f.height - 5, anchor, clock(t)));
  }
  return parts;
}

function label(x, y, anchor, words, kind) {
  const mark = draw("text", { x, y, "text-anchor": anchor, class: kind });
  mark.textContent = words;
  return mark;
}

function line(points, x, y) {
  let d = "";
  let pen = "M";
  for (const p of points) {
    const v = y(p);
    if (v === null) {
      pen = "M";
      continue;
    }
    d += `${pen}${x(p.t).toFixed(1)} ${v.toFixed(1)}`;
    pen = "L";
  }
  return d;
}

/** The area of a rate per second: each second a block, as it was counted. */
function area(points, f, value) {
  if (points.length === 0) return "";
  const second = f.x(f.last) - f.x(f.last - 1000);
  let d = `M${(f.x(points[0].t) - second).toFixed(1)} ${f.bottom}`;
  for (const p of points) {
    const [x, y] = [f.x(p.t), f.y(value(p)).toFixed(1)];
    d += `L${(x - second).toFixed(1)} ${y}L${x.toFixed(1)} ${y}`;
  }
  return `${d}L${f.x(points.at(-1).t).toFixed(1)} ${f.bottom}Z`;
}

function curves(points, f) {
  const shown = points.filter((p) => p.t > f.last - SPAN_MS);
  const last = shown.at(-1);
  const or = (v) => (v === null ? null : f.y(v));
  const parts = [
    draw("path", { class: "held", d: area(shown, f, (p) => p.rate_1s) }),
    draw("path", { class: "passed", d: area(shown, f, (p) => Math.min(p.rate_1s, p.passed ?? p.rate_1s)) }),
    draw("path", { class: "base", d: line(shown, f.x, (p) => or(p.baseline)) }),
    draw("path", { class: "next", d: line(shown, f.x, (p) => (p.threshold !== null && p.threshold <= f.ceiling ? f.y(p.threshold) : null)) }),
    draw("path", { class: "rate", d: line(shown, f.x, (p) => f.y(p.rate_10s)) }),
  ];
  return parts.concat(ends(last, f));
}

/** Names at the ends of the lines, moved apart where they would touch. */
function ends(last, f) {
  const marks = [{ v: last.rate_10s, words: `${rate(last.rate_10s)}/s`, kind: "" }];
  if (last.baseline !== null) {
    marks.push({ v: last.baseline, words: `base ${rate(last.baseline)}`, kind: "t-base" });
  }
  if (last.threshold !== null) {
    const above = last.threshold > f.ceiling ? " ↑" : "";
    marks.push({ v: last.threshold, words: `next ${rate(last.threshold)}${above}`, kind: "t-next" });
  }
  for (const mark of marks) mark.y = f.y(mark.v) + 4;
  marks.sort((a, b) => a.y - b.y);
  for (let i = 1; i < marks.length; i += 1) marks[i].y = Math.max(marks[i].y, marks[i - 1].y + 14);
  const over = marks.at(-1).y - (f.bottom + 4);
  if (over > 0) {
    for (let i = marks.length - 1, floor = f.bottom + 4; i >= 0; i -= 1, floor -= 14) {
      marks[i].y = Math.min(marks[i].y, floor);
    }
  }
  return marks.map((m) => label(f.right + 8, m.y, "start", m.words, m.kind));
}

function stairs(points, f) {
  const shown = points.filter((p) => p.t > f.last - SPAN_MS);
  let d = "";
  let level = null;
  for (const p of shown) {
    const x = f.x(p.t).toFixed(1);
    if (level === null) d += `M${x} ${f.level(p.level).toFixed(1)}`;
    else if (level !== p.level) d += `H${x}V${f.level(p.level).toFixed(1)}`;
    level = p.level;
  }
  d += `H${f.x(shown.at(-1).t).toFixed(1)}`;
  const [from, to] = [f.x(shown[0].t).toFixed(1), f.x(shown.at(-1).t).toFixed(1)];
  const floor = f.level(0).toFixed(1);
  return [
    draw("path", { class: "stairs", d: `${d}V${floor}H${from}Z` }),
    draw("path", { class: "stairs-line", d: d.replace(/H$/, `H${to}`) }),
  ];
}
