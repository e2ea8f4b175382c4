// The live page: listens to the stream, keeps what was chosen, has the panels drawn.

import { byId, chip, clock, LEVELS, number, rate, text } from "/dom.js";
import { chart, timeAt } from "/chart.js";
import { decided, edge, facts, filter, rooms } from "/panels.js";

const SCENES = ["quiet", "warm-up", "goal", "storm", "recovery"];
const state = { tick: null, chosen: null, follow: true, points: [], policy: null, hover: null, show: "all", asked: 0, theme: "auto" };

// --- colours ---
const THEMES = { auto: "dark", dark: "light", light: "auto" };

function theme(name) {
  state.theme = name;
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  text(byId("theme"), name);
  byId("theme").setAttribute("aria-label", name === "auto" ? "Colours: as the system has them" : `Colours: ${name}`);
  try {
    localStorage.setItem("theme", name);
  } catch {
    // Without storage the choice holds until the page is left.
  }
}

function stored() {
  try {
    const name = localStorage.getItem("theme");
    return name in THEMES ? name : "auto";
  } catch {
    return "auto";
  }
}

// --- the chosen room ---
function choose(room, byHand = true) {
  if (byHand) follow(false);
  if (room === state.chosen) return;
  Object.assign(state, { chosen: room, points: [], policy: null, hover: null });
  text(byId("focus-room"), room);
  if (state.tick) rooms(state.tick.rooms, state.chosen, choose);
  filter(state.show, state.chosen);
  look();
}

function follow(on) {
  state.follow = on;
  byId("follow").setAttribute("aria-pressed", String(on));
}

/** Follows the hottest room, but does not leave one that is held for another just as hot. */
function hottest(list) {
  const now = list.find((r) => r.room === state.chosen);
  const rank = (r) => r.level * 2 + (r.surge ? 1 : 0);
  const first = list.reduce((best, r) => (best === null || rank(r) > rank(best) ? r : best), null);
  if (!now || (first && rank(first) > rank(now))) return first?.room ?? null;
  return state.chosen;
}

async function look() {
  const room = state.chosen;
  const ask = (state.asked += 1);
  if (room === null) return;
  try {
    const answer = await fetch(`/v1/rooms/${encodeURIComponent(room)}`);
    if (!answer.ok || ask !== state.asked) return;
    const known = await answer.json();
    if (room !== state.chosen) return;
    state.points = known.points;
    state.policy = known.policy;
    focus(known.room);
  } catch {
    // The stream says when the connection is lost.
  }
}

function focus(row) {
  const last = state.points.at(-1);
  const level = row?.level ?? last?.level ?? 0;
  byId("focus-chip").replaceChildren(chip(level, true));
  byId("focus-words").replaceChildren(...words(row, last));
  text(byId("focus-policy"), measures(state.policy));
  redraw();
}

function words(row, last) {
  if (!last) return [];
  const strong = (value) => {
    const b = document.createElement("b");
    b.textContent = value;
    return b;
  };
  const parts = [strong(`${rate(last.rate_10s)}/s`), " over 10 s"];
  if (last.baseline === null) parts.push(", its baseline is not known yet");
  else {
    const ratio = row?.ratio ?? null;
    if (ratio === null) parts.push(" against a baseline of ");
    else parts.push(", ", strong(`${number(Math.abs(ratio), 2)} ×`), ratio < 0 ? " below its baseline of " : " above its baseline of ");
    parts.push(strong(`${rate(last.baseline)}/s`));
  }
  if (last.threshold !== null) {
    parts.push(`; level ${Math.min(3, last.level + 1)} above `, strong(`${rate(last.threshold)}/s`));
  }
  parts.push(".");
  return parts;
}

function measures(policy) {
  if (!policy) return "No policy of its own: everything passes.";
  const classes = Object.entries(policy.classes ?? {}).map(([name, m]) => {
    const share = m.admit === undefined ? "" : ` ${number(m.admit * 100)} %`;
    const later = m.delay_ms === undefined ? "" : ` after ${number(m.delay_ms)} ms`;
    return `${name}${share}${later}`;
  });
  const off = policy.off?.length ? `; switched off: ${policy.off.join(", ")}` : "";
  const queue = policy.shape?.chat_buffer ? `; ${number(policy.shape.chat_buffer)} may wait` : "";
  return `Policy ${policy.epoch}.${policy.seq} for ordinary users: ${classes.join(", ")}${queue}${off}.`;
}

function redraw() {
  const read = chart(byId("chart"), state.points, state.hover);
  const readout = byId("readout");
  if (!read) {
    text(readout, "");
    return;
  }
  const held = Math.max(0, read.rate_1s - (read.passed ?? read.rate_1s));
  text(readout, `${clock(read.t)}  ${number(read.rate_1s)}/s offered, ${number(held)} held back, level ${read.level} ${LEVELS[read.level] ?? ""}`);
}

// --- the stream ---
function tick(now) {
  const newer = state.tick === null || now.now !== state.tick.now;
  state.tick = now;
  link(now.phase === "ended" ? "ended" : "live");
  text(byId("clock"), now.now ? clock(now.now) : "--:--:--");
  stage(now);
  facts(now);
  edge(now.edge);
  if (state.follow) {
    const next = hottest(now.rooms);
    if (next !== null && next !== state.chosen) choose(next, false);
  }
  rooms(now.rooms, state.chosen, choose);
  if (newer) look();
  const speed = now.speed === 1 ? "" : ` at ${number(now.speed, now.speed < 10 ? 1 : 0)} × speed`;
  text(byId("source"), `${now.source}${speed}`);
}

function stage(now) {
  const warming = now.phase === "warming";
  const scene = now.scene;
  const plain = { warming: "Learning", live: "Live", ended: "Ended" }[now.phase];
  text(byId("scene"), warming || !scene || now.phase === "ended" ? plain : scene.name);
  const tale = { warming: "Two minutes of quiet at full speed, so that every room has a baseline.", ended: "The stream has ended; this is how it stood." }[now.phase];
  text(byId("tale"), tale ?? scene?.tale ?? "Your own stream, decided by the shipped rules.");
  const at = scene && now.phase === "live" ? SCENES.indexOf(scene.name) : -1;
  const acts = byId("acts");
  if (acts.children.length === 0 && scene) acts.append(...SCENES.map(() => document.createElement("li")));
  [...acts.children].forEach((act, i) => {
    act.className = i === at ? "now" : i < at ? "past" : "";
  });
  document.title = scene && !warming ? `${scene.name} · Barrage` : "Barrage";
}

function link(name) {
  const names = { connecting: "connecting", live: "live", ended: "ended", lost: "connection lost, trying again" };
  byId("link").dataset.state = name;
  text(byId("link"), names[name]);
}

function listen() {
  const stream = new EventSource("/v1/stream");
  stream.addEventListener("hello", (event) => {
    const hello = JSON.parse(event.data);
    decided(hello.decisions.reverse(), choose, false);
    tick(hello.tick);
    filter(state.show, state.chosen);
  });
  stream.addEventListener("tick", (event) => tick(JSON.parse(event.data)));
  stream.addEventListener("decision", (event) => {
    decided([JSON.parse(event.data)], choose, true);
    filter(state.show, state.chosen);
  });
  stream.onerror = () => {
    link("lost");
    // A stream that was refused is not taken up again by the browser itself.
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

// --- hands ---
byId("theme").addEventListener("click", () => theme(THEMES[state.theme]));
byId("follow").addEventListener("click", () => {
  follow(!state.follow);
  if (state.follow && state.tick) choose(hottest(state.tick.rooms) ?? state.chosen, false);
});
byId("rooms").addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const buttons = [...byId("rooms").querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  if (step && at >= 0) {
    event.preventDefault();
    buttons[Math.min(buttons.length - 1, Math.max(0, at + step))].focus();
  }
});
for (const button of document.querySelectorAll("[data-show]")) {
  button.addEventListener("click", () => {
    state.show = button.dataset.show;
    for (const other of document.querySelectorAll("[data-show]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    filter(state.show, state.chosen);
  });
}
byId("chart").addEventListener("pointermove", (event) => {
  state.hover = state.points.length ? timeAt(byId("chart"), event.clientX, state.points) : null;
  redraw();
});
byId("chart").addEventListener("pointerleave", () => {
  state.hover = null;
  redraw();
});
new ResizeObserver(redraw).observe(byId("chart"));

theme(stored());
listen();
