"use strict";
// The list of trajectories, to choose from by pointer or by keys.
(function() {
const h = khost.h;

khost.trajectoryKey = (run, id) => run.id + "#" + id;

khost.canRead = (run, id) => run.trajectories.list.some((one) => one.id === id);
khost.readLink = (run, id, text) =>
    h("a", {
      href: "#trajectories",
      onclick() {
        Object.assign(khost.state, {chosen: khost.trajectoryKey(run, id), filter: "", ending: ""});
        khost.redrawTrajectories();
      }
    },
      text);

const textOf = (one) => [one.id, one.stage, one.name, one.policy, one.status, one.reason, one.verdict.status,
                         "reward " + khost.rewardOf(one)]
                            .join(" ")
                            .toLowerCase();

// The list and the pane beside it. What is chosen and filtered is kept in khost.state, which outlives a new drawing.
class Browser {
  constructor(runs) {
    this.several = runs.length > 1;
    this.all = runs.flatMap(
        (run, place) => run.trajectories.list.map(
            (one) => ({run, place, one, key: khost.trajectoryKey(run, one.id), text: textOf(one)})));
    this.list = h("ul", {class: "entries", role: "listbox", tabindex: "0", "aria-label": "trajectories"});
    this.pane = h("article", {class: "reader", tabindex: "-1", "aria-live": "polite"});
    this.count = h("span", {class: "note", role: "status"});
    this.search = h("input", {
      type: "search",
      class: "filter",
      placeholder: "filter: task, policy, stage, reason, reward 2 …",
      "aria-label": "filter trajectories",
      value: khost.state.filter || "",
      oninput: (event) => {
        khost.state.filter = event.target.value;
        this.fill();
      }
    });
    this.fill();
  }

  status() {
    const words = [...new Set(this.all.map((item) => item.one.verdict.status).filter(Boolean))].sort();
    const change = (event) => {
      khost.state.ending = event.target.value;
      this.fill();
    };
    return h(
        "select", {"aria-label": "verdict", onchange: change}, h("option", {value: ""}, "all verdicts"),
        words.map((word) => h("option", {value: word, selected: word === khost.state.ending}, word)));
  }

  entry(item, index) {
    const one = item.one, verdict = one.verdict.status || "";
    const colour = khost.statusColour(verdict, item.run.meaning);
    return h(
        "li", {
          role: "option",
          id: "entry-" + index,
          "data-key": item.key,
          "aria-selected": "false",
          onclick: () => this.choose(item)
        },
        h("span", {class: "dot", style: {background: colour}, title: verdict}),
        h("span", {class: "entry-name"}, this.several && khost.runMark(item.place), one.name),
        h("span", {class: "entry-reward"}, khost.rewardOf(one)),
        h("span", {class: "note entry-note"}, `${one.stage} ${khost.number(one.step)} · ${verdict || one.status} · `,
          khost.many(one.turn_count, "turn", "turns")));
  }

  fill() {
    const words = (khost.state.filter || "").toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.all.filter(
        (item) => words.every((word) => item.text.includes(word)) &&
            (!khost.state.ending || item.one.verdict.status === khost.state.ending));
    this.list.replaceChildren(...this.shown.map((item, index) => this.entry(item, index)));
    this.count.textContent = `${khost.number(this.shown.length)} listed`;
    this.choose(this.shown.find((item) => item.key === khost.state.chosen) || this.shown[0]);
  }

  choose(item, follow) {
    khost.state.chosen = item ? item.key : null;
    for (const entry of this.list.children) {
      const own = !!item && entry.dataset.key === item.key;
      entry.setAttribute("aria-selected", String(own));
      if (!own) continue;
      this.list.setAttribute("aria-activedescendant", entry.id);
      if (follow) entry.scrollIntoView({block: "nearest"});
    }
    this.read(item);
  }

  // Fills the pane. One that a reader has before their eyes stays as it is when the page is drawn anew.
  read(item) {
    const what = JSON.stringify([item ? [item.key, item.one] : null, khost.dark()]), before = khost.reading;
    if (before && before.what === what) {
      this.pane.replaceChildren(...before.nodes);
      return;
    }
    const parts = item ? khost.reader(item.run, item.one) : [khost.empty("No trajectory matches.")];
    const nodes = parts.flat().filter(Boolean);
    khost.reading = {what, nodes};
    this.pane.replaceChildren(...nodes);
    this.pane.scrollTop = 0;
  }

  // Where list and pane were scrolled to, and whether keys went to the list.
  place() {
    return {
      list: this.list.scrollTop,
      pane: this.pane.scrollTop,
      chosen: khost.state.chosen,
      focus: document.activeElement === this.list
    };
  }

  putBack(place) {
    this.list.scrollTop = place.list;
    if (place.chosen === khost.state.chosen) this.pane.scrollTop = place.pane;
    if (place.focus) this.list.focus({preventScroll: true});
  }

  // The trajectory so many places further in the list.
  step(by) {
    const at = this.shown.findIndex((item) => item.key === khost.state.chosen);
    const item = this.shown[Math.max(0, Math.min(this.shown.length - 1, at + by))];
    if (item) this.choose(item, true);
  }

  // The turn behind or before the one at the pane's top; the verdict counts as the last.
  toTurn(by) {
    const stops = [...this.pane.querySelectorAll(".turn, .verdict")];
    const top = this.pane.getBoundingClientRect().top;
    const place = (stop) => stop.getBoundingClientRect().top - top;
    const next = by > 0 ? stops.find((stop) => place(stop) > 8) : stops.reverse().find((stop) => place(stop) < -8);
    if (next) next.scrollIntoView({block: "start"});
  }

  // What a key does, if anything; arrows and the like only while the list has the focus.
  action(event) {
    const keys = {
      j: () => this.step(1),
      k: () => this.step(-1),
      n: () => this.toTurn(1),
      p: () => this.toTurn(-1),
      "/": () => this.search.focus()
    };
    const own = {
      ArrowDown: keys.j,
      ArrowUp: keys.k,
      Home: () => this.step(-this.all.length),
      End: () => this.step(this.all.length),
      Enter: () => this.pane.focus()
    };
    return keys[event.key] || (event.target === this.list && own[event.key]) || null;
  }
}

function section(runs) {
  const total = runs.reduce((sum, run) => sum + run.trajectories.total, 0);
  const browser = new Browser(runs), shown = browser.all.length;
  khost.browser = browser;
  if (!shown) {
    const empty = khost.empty("No trajectory is stored; a run that only judges kernels has none.");
    return khost.section("trajectories", "Trajectories", null, empty);
  }
  const note = total > shown ? `${khost.number(shown)} of ${khost.number(total)}: a sample in which every ending and ` +
          "reward of each stage occurs; khost show prints the others" :
                               `all ${khost.number(total)}`;
  const key = (name) => h("kbd", null, name);
  return khost.section(
      "trajectories", "Trajectories", note,
      h("div", {class: "controls"}, browser.search, browser.status(), browser.count,
        h("span", {class: "note keys"}, key("j"), key("k"), " trajectory ", key("n"), key("p"), " turn ", key("/"),
          " filter")),
      h("div", {class: "browser"}, browser.list, browser.pane));
}

khost.trajectories = section;

khost.redrawTrajectories = function() {
  document.getElementById("trajectories").replaceWith(section(khost.data.runs));
  document.getElementById("trajectories").scrollIntoView();
};
})();
