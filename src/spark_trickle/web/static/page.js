// Keeps the page up to date: gets it again when the server says that it shows something else, and takes over what
// differs in the parts marked with data-live. Nothing here is needed for reading.
"use strict";

const root = document.documentElement;
const live = document.getElementById("live");
let clock = Date.parse(root.dataset.now) - Date.now(); // the server's clock, seen from here
let shown = root.dataset.version;
let wanted = shown;
let busy = false;
let events = null;
let pause = 1; // seconds until it tries to connect again: twice as many each time, up to a minute
let trying = false;
let full = false; // as many windows listen as may: this one must be reloaded

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [unit, size, lower, part] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (whole >= size) {
      const rest = Math.floor((whole % size) / part);
      return `${Math.floor(whole / size)} ${unit}` + (rest ? ` ${rest} ${lower}` : "");
    }
  }
  return `${whole} s`;
}

function tick() {
  for (const each of document.querySelectorAll("[data-since]")) {
    const moment = Date.parse(each.getAttribute("datetime") || each.dataset.since);
    const text = age((Date.now() + clock - moment) / 1000);
    if (each.textContent !== text) each.textContent = text;
  }
}

// Make `old` like `next`, changing as little as possible: focus, selection and scrolled places stay.
function morph(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const coming = [...next.childNodes];
  const ids = new Set(coming.map((node) => node.id).filter(Boolean));
  let at = old.firstChild;
  for (const node of coming) {
    const same = node.id ? [...old.children].find((child) => child.id === node.id) : null;
    while (!same && at && at.id && ids.has(at.id)) at = at.nextSibling;
    if (same) {
      if (same !== at) old.insertBefore(same, at);
      else at = at.nextSibling;
      morph(same, node);
    } else if (at && !node.id && !at.id) {
      const following = at.nextSibling;
      morph(at, node);
      at = following;
    } else {
      if (node.nodeName === "TR") node.classList.add("is-new");
      old.insertBefore(node, at);
    }
  }
  while (at) {
    const following = at.nextSibling;
    if (!(at.id && ids.has(at.id))) at.remove();
    at = following;
  }
}

function take(next) {
  document.title = next.title;
  const parts = [...document.querySelectorAll("[data-live]")];
  const coming = new Map([...next.querySelectorAll("[data-live]")].map((part) => [part.id, part]));
  if (parts.length !== coming.size || parts.some((part) => !coming.has(part.id))) {
    location.reload(); // it is another page now: the first stream table was made, or this one was dropped
    return;
  }
  for (const part of parts) morph(part, document.adoptNode(coming.get(part.id)));
  tick();
}

async function update() {
  if (busy || wanted === shown || document.hidden) return;
  busy = true;
  try {
    const address = new URL(location.href);
    address.searchParams.delete("plan"); // it is not part of what changes, and costs
    address.hash = "";
    const version = wanted;
    const answer = await fetch(address, { cache: "no-store", headers: { Accept: "text/html" } });
    if (new URL(answer.url).pathname === "/login") throw new Error("log in again");
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = next.documentElement.dataset;
    if (!found.version) throw new Error("not connected"); // a proxy's page, say
    clock = Date.parse(found.now) - Date.now();
    shown = found.version;
    if (wanted === version) wanted = shown; // else another event came meanwhile
    const readable = answer.ok || answer.status === 404;
    say(readable, readable ? "live" : "the catalog does not answer");
    if (readable) take(next);
  } catch (error) {
    say(false, error.message === "log in again" ? error.message : "not connected");
  }
  setTimeout(() => {
    busy = false;
    update();
  }, 1000);
}

function say(good, text) {
  live.className = `live ${good ? "is-on" : "is-off"}`;
  if (live.textContent !== text) live.textContent = text;
}

function listen() {
  if (events && events.readyState !== EventSource.CLOSED) return;
  events = new EventSource("/events");
  events.addEventListener("open", () => (pause = 1));
  events.addEventListener("version", (event) => {
    say(true, "live");
    wanted = event.data;
    update();
  });
  events.onerror = () => say(false, "not connected");
}

// A browser gives up for good where it is refused, and does not say why: a fetch can.
async function refused() {
  const stop = new AbortController();
  try {
    const answer = await fetch("/events", { cache: "no-store", signal: stop.signal });
    full = answer.status === 204;
    if (full) say(false, "reload to see changes");
    else if (answer.status === 401) say(false, "log in again");
    else if (answer.ok && !document.hidden) listen();
  } catch {
    say(false, "not connected");
  } finally {
    stop.abort();
    trying = false;
  }
}

function again() {
  if (trying || full || !events || events.readyState !== EventSource.CLOSED) return;
  trying = true;
  setTimeout(refused, 1000 * pause);
  pause = Math.min(2 * pause, 60);
}

// A hidden page needs no connection: browsers allow only some to one server.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (events) events.close();
  } else {
    full = false;
    listen();
    tick();
  }
});
window.addEventListener("pagehide", () => events && events.close());
window.addEventListener("pageshow", () => document.hidden || listen());
setInterval(() => {
  if (document.hidden) return;
  tick();
  again();
}, 1000);
tick();
if (!document.hidden) listen();
