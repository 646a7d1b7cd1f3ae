"use strict";
// Trajectories: a list to choose from, by pointer or by keys, and the chosen one turn by turn from the task to its verdict.
(function () {
  const h = khost.h;
  const key = (run, id) => run.id + "#" + id;

  khost.canRead = (run, id) => run.trajectories.list.some((one) => one.id === id);
  khost.readLink = (run, id, text) => h("a", { href: "#trajectories", onclick() {
    Object.assign(khost.state, { chosen: key(run, id), filter: "", ending: "" });
    khost.redrawTrajectories();
  } }, text);

  const rewardOf = (one) => (typeof one.reward === "number" ? khost.number(one.reward) : "–");
  const textOf = (one) => [one.id, one.stage, one.name, one.policy, one.status, one.reason, one.verdict.status, "reward " + rewardOf(one)].join(" ").toLowerCase();

  function call(one) {
    const long = (argument) => argument.text.length > 60 || argument.text.includes("\n");
    const path = (one.arguments.find((argument) => /path|file/.test(argument.name)) || {}).text;
    return h("div", { class: "call" }, h("p", { class: "call-head" }, h("code", { class: "call-name" }, one.name), one.arguments.filter((argument) => !long(argument)).map((argument) => h("code", null, `${argument.name}=${argument.text}`)),
      (one.status && one.status !== "ok" || one.label) && h("span", { class: "tag bad" }, [one.status !== "ok" && one.status, one.label].filter(Boolean).join(", "))),
      one.arguments.filter(long).map((argument) => khost.code(argument.text, argument.name === "command" ? "text" : khost.languageOf(path), argument.name)), observation(one.observation));
  }

  // What the environment answered; a long one is folded.
  function observation(text) {
    if (!text) return null;
    const block = () => [h("pre", { class: "observation", tabindex: "0" }, text)];
    return text.length < 1500 ? block() : h("details", null, h("summary", null, `observation of ${khost.number(text.length)} characters`), block());
  }

  function turn(one) {
    const facts = [one.label, typeof one.seconds === "number" && khost.duration(one.seconds), one.tokens && khost.many(one.tokens, "token", "tokens")].filter(Boolean).join(" · ");
    const answer = one.observation && h("div", { class: "reply" }, h("h5", null, one.tool || "reply", one.status && one.status !== "ok" && h("span", { class: "tag bad" }, one.status)), observation(one.observation));
    return h("li", { class: "turn", tabindex: "-1", "aria-label": "turn " + one.index }, h("h4", null, `Turn ${one.index}`, h("span", { class: "note" }, facts)),
      one.thought && h("div", { class: "thought" }, khost.prose(one.thought)), one.text && khost.prose(one.text), one.calls.map(call), answer, one.diff && [h("h5", null, "Changed files"), khost.code(one.diff, "diff")]);
  }

  function verdict(run, one) {
    const v = one.verdict, times = v.times || {}, speed = v.speedup || {};
    if (!v.status) return khost.empty("No verdict is stored.");
    const right = run.meaning[v.status] && run.meaning[v.status].counts === "passed";
    const facts = [["status", [h("span", { class: "dot", style: { background: khost.statusColour(v.status, run.meaning) } }), v.status + (v.stage ? " at " + v.stage : "")]], v.reason && ["reason", v.reason], ["reward", rewardOf(one)],
      typeof times.candidate_s === "number" && ["time", `${khost.duration(times.candidate_s)}; eager ${khost.duration(times.eager_s)} (${khost.times(speed.eager)}), compile ${khost.duration(times.compile_s)} (${khost.times(speed.compile)})`]].filter(Boolean);
    return h("div", { class: "verdict " + (right ? "right" : "failed") }, h("h4", null, "Verdict"), h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])), v.detail && h("p", { class: "detail" }, v.detail));
  }

  function reader(run, one) {
    const labels = Object.entries(one.labels || {}).map(([name, count]) => h("span", { class: "tag" }, `${name} ${count}`));
    const facts = [one.stage && `${one.stage}, step ${khost.number(one.step)}, index ${khost.number(one.index)}`, one.policy, `ended by ${one.status || "–"}`, khost.many(one.turns.length, "turn", "turns"), one.tokens && khost.many(one.tokens, "token", "tokens"),
      typeof one.learnt === "number" && one.tokens && `${khost.number(one.learnt)} of them the policy's`, khost.duration(one.seconds)].filter(Boolean).join(" · ");
    return [h("header", null, h("h3", null, one.name, h("span", { class: "note" }, " #" + one.id)), h("p", { class: "note" }, facts), labels, one.error && h("p", { class: "detail bad" }, one.error), one.void && h("p", { class: "detail" }, "no reward: " + one.void)),
      run.sources[one.task] && h("details", null, h("summary", null, "Task: the reference"), khost.code(run.sources[one.task], "python", "model.py")),
      one.prompt.map((message) => h("details", null, h("summary", null, `Message: ${message.role}`), h("pre", { class: "observation", tabindex: "0" }, message.text))),
      one.turns.length ? h("ol", { class: "turns" }, one.turns.map(turn)) : khost.empty("No turn is stored."), verdict(run, one)];
  }

  khost.trajectories = function (runs) {
    const all = runs.flatMap((run, place) => run.trajectories.list.map((one) => ({ run, place, one, key: key(run, one.id), text: textOf(one) })));
    const total = runs.reduce((sum, run) => sum + run.trajectories.total, 0);
    if (!all.length) return khost.section("trajectories", "Trajectories", null, khost.empty("No trajectory is stored: this run judged kernels without playing episodes."));
    const list = h("ul", { class: "entries", role: "listbox", tabindex: "0", "aria-label": "trajectories" }), pane = h("article", { class: "reader", tabindex: "-1", "aria-live": "polite" });
    let shown = [];

    function choose(item, focus) {
      khost.state.chosen = item ? item.key : null;
      for (const entry of list.children) {
        const own = item && entry.dataset.key === item.key;
        entry.setAttribute("aria-selected", String(!!own));
        if (own) {
          list.setAttribute("aria-activedescendant", entry.id);
          if (focus) entry.scrollIntoView({ block: "nearest" });
        }
      }
      pane.replaceChildren(...(item ? reader(item.run, item.one).flat().filter(Boolean) : [khost.empty("No trajectory matches.")]));
      pane.scrollTop = 0;
    }

    function entry(item, index) {
      const one = item.one;
      return h("li", { role: "option", id: "entry-" + index, "data-key": item.key, "aria-selected": "false", onclick() { choose(item); } }, h("span", { class: "dot", style: { background: khost.statusColour(one.verdict.status || "", item.run.meaning) }, title: one.verdict.status }),
        h("span", { class: "entry-name" }, runs.length > 1 && khost.runMark(item.place), one.name), h("span", { class: "entry-reward" }, rewardOf(one)), h("span", { class: "note entry-note" }, `${one.stage} ${khost.number(one.step)} · ${one.verdict.status || one.status} · ${khost.many(one.turn_count, "turn", "turns")}`));
    }

    function fill() {
      const words = (khost.state.filter || "").toLowerCase().split(/\s+/).filter(Boolean);
      shown = all.filter((item) => words.every((word) => item.text.includes(word)) && (!khost.state.ending || item.one.verdict.status === khost.state.ending));
      list.replaceChildren(...shown.map(entry));
      count.textContent = `${khost.number(shown.length)} listed`;
      choose(shown.find((item) => item.key === khost.state.chosen) || shown[0]);
    }

    function step(by) {
      const at = shown.findIndex((item) => item.key === khost.state.chosen);
      const item = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
      if (item) choose(item, true);
    }

    function toTurn(by) {
      const turns = [...pane.querySelectorAll(".turn, .verdict")], top = pane.getBoundingClientRect().top;
      const at = turns.findIndex((one) => one.getBoundingClientRect().top - top > -4);
      const now = at < 0 ? turns.length : at, next = turns[Math.max(0, Math.min(turns.length - 1, by > 0 && at >= 0 && turns[at].getBoundingClientRect().top - top > 8 ? now : now + by))];
      if (next) next.scrollIntoView({ block: "start" });
    }

    khost.trajectoryKey = function (event) {
      const keys = { j: () => step(1), k: () => step(-1), n: () => toTurn(1), p: () => toTurn(-1), "/": () => search.focus(), Home: () => step(-1e9), End: () => step(1e9) };
      if (event.target === list) Object.assign(keys, { ArrowDown: () => step(1), ArrowUp: () => step(-1), Enter: () => pane.focus() });
      else if (event.key === "Home" || event.key === "End") return false;
      if (!keys[event.key]) return false;
      keys[event.key]();
      return true;
    };

    const search = h("input", { type: "search", class: "filter", placeholder: "filter: task, policy, stage, reason, reward 2 …", "aria-label": "filter trajectories", value: khost.state.filter || "", oninput(event) { khost.state.filter = event.target.value; fill(); } });
    const statuses = [...new Set(all.map((item) => item.one.verdict.status).filter(Boolean))].sort();
    const status = h("select", { "aria-label": "verdict", onchange(event) { khost.state.ending = event.target.value; fill(); } }, h("option", { value: "" }, "all verdicts"), statuses.map((word) => h("option", { value: word, selected: word === khost.state.ending }, word)));
    const count = h("span", { class: "note", role: "status" });
    const note = total > all.length ? `${khost.number(all.length)} of ${khost.number(total)}: a sample in which every ending and reward of each stage occurs; khost show prints the others` : `all ${khost.number(total)}`;
    fill();
    return khost.section("trajectories", "Trajectories", note, h("div", { class: "controls" }, search, status, count, h("span", { class: "note keys" }, h("kbd", null, "j"), h("kbd", null, "k"), " trajectory ", h("kbd", null, "n"), h("kbd", null, "p"), " turn ", h("kbd", null, "/"), " filter")),
      h("div", { class: "browser" }, list, pane));
  };

  khost.redrawTrajectories = function () {
    document.getElementById("trajectories").replaceWith(khost.trajectories(khost.data.runs));
    document.getElementById("trajectories").scrollIntoView();
  };
})();
