// The lists of the page: facts, rooms by heat, the edge by class, decisions. They change in place, nothing jumps.

import { attribute, byId, chip, clock, draw, LEVELS, make, number, rate, text } from "/dom.js";

/** The numbers on top. */
export function facts(tick) {
  const held = tick.held.reduce((a, b) => a + b, 0);
  const refused = tick.edge.classes.reduce((sum, lane) => sum + lane.recent.refused, 0) / 10;
  text(byId("fact-site"), number(tick.site[0]));
  text(byId("fact-rooms"), number(tick.alive));
  text(byId("fact-held"), number(held));
  text(byId("fact-levels"), held ? `rooms: ${tick.held.join(" · ")}` : "rooms");
  text(byId("fact-refused"), number(refused));
  text(byId("fact-decided"), number(tick.decided));
  byId("fact-held").classList.toggle("hot", held > 0);
  byId("fact-refused").classList.toggle("hot", refused > 0);
}

const rows = new Map();

/** The rooms, hottest first. `choose` is called with the id of the one chosen. */
export function rooms(list, chosen, choose) {
  const parent = byId("rooms");
  const keep = new Set(list.map((r) => r.room));
  for (const [id, row] of rows) {
    if (!keep.has(id)) {
      row.item.remove();
      rows.delete(id);
    }
  }
  list.forEach((room, at) => {
    let row = rows.get(room.room);
    if (!row) {
      row = newRow(room.room, choose);
      rows.set(room.room, row);
    }
    update(row, room, room.room === chosen);
    // Moving the element under the keyboard's focus would lose it, so only what is out of place moves.
    if (parent.children[at] !== row.item) parent.insertBefore(row.item, parent.children[at] ?? null);
  });
}

function newRow(id, choose) {
  const name = make("span", { class: "name" });
  const tag = make("span", { class: "tag" });
  const mark = chip(0);
  const line = draw("polyline");
  const spark = draw("svg", { viewBox: "0 0 76 22", preserveAspectRatio: "none", "aria-hidden": "true" }, line);
  const now = make("span", { class: "rate" });
  const fill = make("i");
  const heat = make("span", { class: "heat", "aria-hidden": "true" }, fill);
  name.textContent = id;
  name.append(tag);
  const button = make("button", { type: "button" }, mark, name, spark, now, heat);
  button.addEventListener("click", () => choose(id));
  return { item: make("li", {}, button), button, mark, tag, line, now, fill };
}

function update(row, room, chosen) {
  const level = LEVELS[room.level] ?? "";
  attribute(row.item, "data-level", room.level);
  attribute(row.mark, "data-level", room.level);
  text(row.mark, String(room.level));
  text(row.tag, room.unknown ? "unknown" : room.micro ? "micro-burst" : room.surge ? "surge" : "");
  text(row.now, `${number(room.rate_1s)}/s`);
  attribute(row.button, "aria-current", chosen);
  attribute(row.button, "aria-label",
    `${room.room}, level ${room.level} ${level}, ${number(room.rate_1s)} per second${room.surge ? ", surge" : ""}`);
  row.fill.style.transform = `scaleX(${room.heat})`;
  attribute(row.line, "points", spark(room.spark));
}

function spark(values) {
  if (values.length < 2) return "";
  const most = Math.max(4, ...values);
  const step = 76 / (values.length - 1);
  return values.map((v, i) => `${(i * step).toFixed(1)},${(20.5 - (v / most) * 19).toFixed(1)}`).join(" ");
}

const lanes = new Map();

/** What the edge does, by class. */
export function edge(now) {
  const words = now.classes.length
    ? `table ${now.state}, revision ${now.applied.join(".")}, ${number(now.rooms)} rooms off their default`
    : "";
  text(byId("edge-state"), words);
  for (const lane of now.classes) {
    let row = lanes.get(lane.class);
    if (!row) {
      row = newLane(lane.class);
      lanes.set(lane.class, row);
      byId("edge").append(row.item);
    }
    const { admitted, delayed, refused } = lane.recent;
    const all = admitted + delayed + refused;
    text(row.offered, rate(all / 10));
    for (const [part, count] of [["admitted", admitted], ["delayed", delayed], ["refused", refused]]) {
      row[part].style.width = `${all ? (100 * count) / all : 0}%`;
    }
    cell(row.later, delayed / 10, rate);
    cell(row.shed, refused / 10, rate);
    cell(row.total, lane.total.refused, number);
    attribute(row.bar, "aria-label", `of ${number(all)}: ${number(admitted)} admitted, ${number(delayed)} delayed, ${number(refused)} refused`);
  }
}

function cell(element, value, format) {
  text(element, format(value));
  element.classList.toggle("zero", value === 0);
}

function newLane(name) {
  const part = (kind) => make("i", { class: kind });
  const row = {
    admitted: part("admitted"), delayed: part("delayed"), refused: part("refused"),
    offered: make("td", { class: "num" }), later: make("td", { class: "num hide-s" }),
    shed: make("td", { class: "num refused-now" }), total: make("td", { class: "num refused-total" }),
  };
  row.bar = make("div", { class: "split", role: "img" }, row.admitted, row.delayed, row.refused);
  const head = make("th", { scope: "row" });
  head.textContent = name;
  row.item = make("tr", { "data-class": name }, head, row.offered, make("td", {}, row.bar), row.later, row.shed, row.total);
  return row;
}

const KEPT = 120;
const seen = new Map();

/** Adds decisions that were not seen before; the newest ends up on top. */
export function decided(list, choose, fresh) {
  const parent = byId("decisions");
  for (const told of list) {
    if (seen.has(told.id)) continue;
    const item = entry(told, choose);
    if (fresh) item.classList.add("new");
    seen.set(told.id, { told, item });
    parent.prepend(item);
  }
  while (parent.children.length > KEPT) {
    const last = parent.lastElementChild;
    seen.delete(last.dataset.id);
    last.remove();
  }
}

function entry(told, choose) {
  const up = told.kind === "level" ? Number(told.to) > Number(told.from) : told.kind === "blast_cap" && told.to === "on";
  const site = told.scope !== "room";
  const who = make(site ? "span" : "button", { class: "who", type: site ? null : "button" });
  who.textContent = site ? "site" : told.subject;
  if (!site) who.addEventListener("click", () => choose(told.subject));
  const what = make("span", { class: "what" });
  what.textContent = told.title;
  const at = make("time");
  at.textContent = clock(told.t, true);
  const why = make("p");
  why.textContent = told.arithmetic;
  return make("li", {
    "data-id": told.id, "data-kind": told.kind, "data-subject": told.subject, "data-rule": told.rule,
    "data-weight": up ? "up" : "",
  }, make("div", { class: "head" }, who, what, at), why);
}

/** Shows all decisions, those on levels, or those of one room. */
export function filter(show, room) {
  for (const { told, item } of seen.values()) {
    const level = told.kind === "level" || told.kind === "blast_cap" || told.kind === "flap_hold";
    item.hidden = (show === "level" && !level) || (show === "room" && told.subject !== room);
  }
}
