"use strict";
// Puts the page together from the data that it carries, again when the theme changes and, while a run is watched, when
// newer data comes.
(function() {
const h = khost.h, NAMES = {
  overview: "Overview",
  curves: "Curves",
  rewards: "Rewards",
  verdicts: "Verdicts",
  reasons: "Reasons",
  kernels: "Kernels",
  trajectories: "Trajectories",
  tables: "Tables"
};

// What outlives a reload; a browser may refuse storage to files.
function remember(name, value) {
  try {
    if (value === undefined) return JSON.parse(sessionStorage.getItem("khost " + name));
    sessionStorage.setItem("khost " + name, JSON.stringify(value));
  } catch (refused) { /* then it is forgotten */
  }
  return null;
}

function tables(runs) {
  return khost.section(
      "tables", "Tables", "everything that khost show prints",
      runs.map(
          (run, index) =>
              [runs.length > 1 && h("h3", null, khost.runMark(index), khost.runName(run)),
               h("div", {class: "fold-list"},
                 run.tables.map(
                     (table) => khost.fold(
                         `table-${run.id}-${table.title}`, table.title, () => khost.table(table.columns, table.rows),
                         {class: "wide"})),
                 khost.fold(
                     "config-" + run.id, "Configuration", () => khost.code(run.config, "text"), {class: "wide"}))]));
}

// Light or dark: as the reader chose, else as the system has it.
function dress() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = remember("theme") || system;
}

function turnTheme() {
  remember("theme", khost.dark() ? "light" : "dark");
  document.documentElement.dataset.theme = khost.dark() ? "light" : "dark";
  render();
}

function header(runs) {
  const live = khost.data.live;
  return h(
      "header", {class: "top"},
      h("div", {class: "top-line"}, h("h1", null, runs.length === 1 ? runs[0].id : `${runs.length} runs`),
        runs.length === 1 && khost.pill(runs[0].status),
        live && h("span", {class: "live", id: "live", role: "status"}, "live"), h("span", {class: "grow"}),
        h("button", {type: "button", class: "quiet", onclick: turnTheme, title: "light or dark"},
          khost.dark() ? "light" : "dark")),
      h("nav", {"aria-label": "sections"}, Object.entries(NAMES).map(([id, name]) => h("a", {href: "#" + id}, name))));
}

// The section in view is marked in the navigation.
function follow() {
  const links =
      new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
  let at = null;
  for (const section of document.querySelectorAll("main section"))
    if (section.getBoundingClientRect().top < 160) at = section.id;
  links.forEach(
      (link, id) => (id === at ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
}

function render() {
  const runs = khost.data.runs, scroll = window.scrollY, page = document.getElementById("page");
  const place = khost.browser && khost.browser.place();
  khost.forgetCharts();
  page.replaceChildren(
      h("a", {class: "skip", href: "#overview"}, "skip to the overview"), header(runs),
      h("main", null, khost.overview(runs), khost.curves(runs), khost.rewards(runs), khost.verdicts(runs),
        khost.drops(runs), khost.kernels(runs), khost.trajectories(runs), tables(runs)),
      h("footer", {class: "note"}, `Written by khost on ${khost.date(khost.data.generated_s)}.`,
        khost.data.library ? ` Charts by ${khost.data.library}, MIT licence.` :
                             ` Charts are tables here: ${khost.data.missing || "Chart.js is missing"}.`));
  window.scrollTo(0, scroll);
  if (place) khost.browser.putBack(place);
  follow();
}

// Whether somebody is typing or choosing: then nothing is drawn anew under their hands.
const busy = () => document.activeElement !== null && /INPUT|SELECT/.test(document.activeElement.tagName);

function say(text, bad) {
  const place = document.getElementById("live");
  if (place) Object.assign(place, {textContent: text, className: "live" + (bad ? " lost" : "")});
}

async function poll(live) {
  setTimeout(poll, live.every_s * 1000, live);
  if (busy()) return;
  let data;
  try {
    const answer = await fetch(live.url, {cache: "no-store"});
    if (!answer.ok) throw new Error("status " + answer.status);
    data = await answer.json();
  } catch (lost) {
    say("no answer from khost watch; trying again", true);
    return;
  }
  if (data.version !== khost.data.version) {
    khost.data = {...data, library: khost.data.library, missing: khost.data.missing};
    render();
  }
  say("live");
}

function watch(live) {
  if (live.url) return setTimeout(poll, live.every_s * 1000, live);
  // A file that is written anew: loaded again at the place and with the choices of before, but not under someone's
  // hands.
  setTimeout(function again() {
    if (busy()) return setTimeout(again, 1000);
    remember("state", {...khost.state, scroll: window.scrollY});
    location.reload();
  }, live.every_s * 1000);
}

khost.data = JSON.parse(document.getElementById("data").textContent);
dress();
const before = khost.data.live && !khost.data.live.url ? remember("state") : null;
Object.assign(khost.state, before || {});
render();
if (before) window.scrollTo(0, before.scroll || 0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  dress();
  render();
});
addEventListener("scroll", follow, {passive: true});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
  const action = khost.browser && khost.browser.action(event);
  if (!action) return;
  event.preventDefault();
  action();
});
if (khost.data.live) watch(khost.data.live);
})();
