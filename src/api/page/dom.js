// Small helpers: elements whose text is always set as text, numbers and times as people read them.

const SVG = "http://www.w3.org/2000/svg";

/** The element with an id. */
export const byId = (id) => document.getElementById(id);

/** A new element; text goes in as text, never as markup: room ids are anybody's. */
export function make(name, attributes = {}, ...inside) {
  return fill(document.createElement(name), attributes, inside);
}

/** A new element of a drawing. */
export function draw(name, attributes = {}, ...inside) {
  return fill(document.createElementNS(SVG, name), attributes, inside);
}

function fill(element, attributes, inside) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

/** Sets text only where it differs, so that nothing is drawn again for nothing. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Sets an attribute only where it differs. */
export function attribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const formats = new Map();

/** A number with so many decimals and its thousands set apart; a dash for none. */
export function number(value, decimals = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (!formats.has(decimals)) {
    const places = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    formats.set(decimals, new Intl.NumberFormat("en-US", places));
  }
  return formats.get(decimals).format(value);
}

/** A rate: one decimal while it is small. */
export const rate = (value) => number(value, value !== null && value < 100 ? 1 : 0);

/** Event time as a clock shows it. */
export function clock(ms, tenths = false) {
  const at = new Date(ms).toISOString();
  return tenths ? at.slice(11, 21) : at.slice(11, 19);
}

/** Names of the levels. */
export const LEVELS = ["normal", "trim", "buffer", "survive"];

/** The mark of a level. */
export function chip(level, long = false) {
  const mark = make("span", { class: "chip", "data-level": level });
  mark.textContent = long ? `${level} ${LEVELS[level] ?? ""}` : String(level);
  return mark;
}
