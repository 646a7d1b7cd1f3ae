"use strict";
// Curves of metrics; rewards and verdicts by step; reasons.
(function() {
const h = khost.h, DASHED = [5, 4];

// What the field looks at first. Of `main` and `beside` the first that a stage has is drawn, of `beside` dashed.
const NO_LESS = {
  min: 0
};
const SHARE = {
  min: 0,
  suggestedMax: 1
};
const KEY = [
  {title: "Mean reward", main: ["reward", "reward_mean"], beside: ["validation_reward"], as: "validation"},
  {title: "Pass rate", main: ["pass_rate"], beside: ["validation_pass"], as: "validation", range: SHARE},
  {title: "Coverage", note: "tasks with a right answer so far", main: ["covered", "coverage"], range: NO_LESS},
  {title: "Distinct answers", main: ["distinct"], beside: ["distinct_texts"], as: "texts", range: SHARE},
  {title: "Entropy", note: "nats a token", main: ["actor_entropy", "entropy"], range: NO_LESS},
  {title: "Surprise of an answer", note: "nats", main: ["nats_answer"], range: NO_LESS},
  {title: "KL to the sampler's policy", main: ["actor_approx_kl", "approx_kl", "actor_kl_k3", "kl"]},
  {title: "Clipped share", main: ["actor_clip_frac", "clip_frac"], range: NO_LESS},
  {title: "Ratio's deviation by token probability", each: /^(?:actor_)?ratio_std_p_(.+)$/, range: NO_LESS},
  {title: "Tokens of an answer", main: ["action_length_mean", "length_mean"], range: NO_LESS},
  {title: "Turns", main: ["turns"], range: NO_LESS}, {title: "Value loss", main: ["value_loss"], range: NO_LESS},
  {title: "Explained variance", note: "of the critic", main: ["ev_mc", "ev_lambda"]},
  {title: "Supervised loss", main: ["loss", "nll"]},
  {title: "Seconds of a step", main: ["rollout_s"], beside: ["update_s"], as: "update", range: NO_LESS}
];
const CALM = ": every status, stage and reason is one that the judge gives, none is the judge's own failure or an " +
    "unsound task's, and no reward stands on a verdict that pays none.";

const stagesOf =
    (runs) => [...new Set(runs.flatMap(
                   (run) => [...run.stages.map((stage) => stage.stage), ...run.curves.map((curve) => curve.stage)]))]
                  .filter((stage) => runs.some((run) => run.curves.some((curve) => curve.stage === stage)));

function lines(runs, stages, all, names, dash, as) {
  const list = [];
  runs.forEach((run, place) => stages.forEach((stage) => {
    const curve = names.map((name) => run.curves.find((one) => one.stage === stage && one.name === name)).find(Boolean);
    if (!curve) return;
    const parts =
        [runs.length > 1 && khost.runName(run), (runs.length === 1 || stages.length > 1) && (stage || "run"), as
        ].filter(Boolean);
    const colour = khost.series(runs.length > 1 ? place : all.indexOf(stage));
    list.push({
      name: parts.join(" · "),
      colour,
      dash: dash || (runs.length > 1 && stages.indexOf(stage) % 2 ? [2, 3] : undefined),
      x: curve.x,
      y: curve.y,
      points: curve.points
    });
  }));
  return list;
}

// One line a metric whose name fits: of the last stage that has them, since lines of more would not be told apart.
function family(runs, stages, all, pattern) {
  const names = [...new Set(runs.flatMap((run) => run.curves.map((curve) => curve.name)))]
                    .filter((name) => pattern.test(name))
                    .sort();
  const stage = stages
                    .filter(
                        (one) => runs.some(
                            (run) => run.curves.some((curve) => curve.stage === one && names.includes(curve.name))))
                    .pop();
  if (stage === undefined) return [];
  const list = names.map(
      (name, place) => lines(
                           runs, [stage], all, [name], runs.length > 1 && place ? [2 + 2 * place, 3] : undefined,
                           range(pattern.exec(name)[1]))
                           .map((line) => (runs.length > 1 ? line : {...line, colour: khost.series(place)})));
  return list.flat();
}

const range = (name) =>
    "p " + name.replace(/^below_/, "< ").replace(/^above_/, "> ").replace(/^(\S+e-\d+)_(\S+)$/, "$1 to $2");

function spec(runs, stages, all, definition) {
  const series = definition.each ? family(runs, stages, all, definition.each) : [
    ...lines(runs, stages, all, definition.main),
    ...(definition.beside ? lines(runs, stages, all, definition.beside, DASHED, definition.as) : [])
  ];
  const thinned = series.filter((line) => line.points > line.x.length);
  const note = [
    definition.note,
    thinned.length && `${khost.number(thinned[0].x.length)} of ${khost.number(thinned[0].points)} steps drawn`
  ].filter(Boolean).join("; ");
  return {
    title: definition.title,
    note,
    kind: "line",
    series,
    range: definition.range,
    smoothing: khost.state.smoothing || 0,
    legend: true
  };
}

function grid(specs, columns) {
  return h(
      "div", {class: "charts" + (columns ? " by-run" : ""), style: {"--runs": columns || 1}},
      specs.map((one) => (one ? khost.chart(one) : h("div"))));
}

// Runs are set against each other stage by stage, first in the one that took the most steps.
function longest(runs, stages) {
  const points = (stage) => Math.max(
      0, ...runs.map((run) => (run.curves.find((curve) => curve.stage === stage && curve.name === "reward") || {
                                points: 0
                              }).points));
  return stages.reduce((best, stage) => (points(stage) >= points(best) ? stage : best), stages[0]);
}

khost.curves = function(runs) {
  const all = stagesOf(runs), hold = h("div");
  if (khost.state.stage === undefined) khost.state.stage = runs.length > 1 ? longest(runs, all) : "";
  if (!all.length)
    return khost.section(
        "curves", "Curves", null, khost.empty("No metric is stored yet: stages that train write one row a step."));
  const names = [...new Set(runs.flatMap((run) => run.curves.map((curve) => curve.name)))].sort();
  function draw() {
    const stages = all.filter((stage) => !khost.state.stage || stage === khost.state.stage);
    const key = KEY.map((definition) => spec(runs, stages, all, definition)).filter((one) => one.series.length);
    const rest = () => {
      const cards = h("div");
      const fill = (word) => {
        const wanted = names.filter((name) => name.toLowerCase().includes(word.toLowerCase()));
        const specs = wanted.map((name) => spec(runs, stages, all, {title: name, main: [name]}))
                          .filter((one) => one.series.length);
        cards.replaceChildren(specs.length ? grid(specs) : khost.empty("No metric has this name."));
      };
      fill(khost.state.metric || "");
      return [
        h("input", {
          type: "search",
          class: "filter",
          placeholder: "filter by name, for example ratio",
          "aria-label": "filter metrics",
          value: khost.state.metric || "",
          oninput(event) {
            fill((khost.state.metric = event.target.value));
          }
        }),
        cards
      ];
    };
    hold.replaceChildren(
        key.length ? grid(key) : khost.empty("None of the usual metrics is stored for this stage."),
        khost.fold("metrics", `All ${names.length} metrics`, rest, {class: "wide"}));
  }
  const choice =
      h("select", {
        "aria-label": "stage",
        onchange(event) {
          khost.state.stage = event.target.value;
          draw();
        }
      },
        h("option", {value: ""}, "all stages"),
        all.map((stage) => h("option", {value: stage, selected: khost.state.stage === stage}, stage || "run")));
  const smoothing = h("input", {
    type: "range",
    min: "0",
    max: "0.95",
    step: "0.05",
    value: khost.state.smoothing || 0,
    "aria-label": "smoothing",
    onchange(event) {
      khost.state.smoothing = Number(event.target.value);
      draw();
    }
  });
  draw();
  return khost.section(
      "curves", "Curves", "by step of each stage; the pointer marks the same step everywhere",
      h("div", {class: "controls"}, h("label", null, "Stage ", choice), h("label", null, "Smoothing ", smoothing)),
      hold);
};

// One stack a run and stage; a stage in which several policies play, such as an evaluation, has a column for each.
function stacks(runs, kind, colour) {
  const stages = [...new Set(runs.flatMap((run) => run[kind].stages.map((stack) => stack.stage)))];
  return stages.flatMap((stage) => runs.map((run) => {
    const stack = run[kind].stages.find((one) => one.stage === stage);
    if (!stack) return null;
    const sum = stack.counts.flat().reduce((a, b) => a + b, 0);
    const series =
        run[kind]
            .levels.map((name, level) => ({name, colour: colour(run, name, level), counts: stack.counts[level]}))
            .filter((layer) => layer.counts.some(Boolean));
    const note = khost.number(sum) +
        (stack.steps > stack.x.length ?
             `; ${stack.steps} ${stack.unit === "step" ? "steps" : "policies"} in ${stack.x.length} columns` :
             "");
    return {
      title: (runs.length > 1 ? khost.runName(run) + " · " : "") + (stack.stage || "run"),
      note,
      kind: "stack",
      x: stack.x,
      unit: stack.unit,
      series,
      legend: true
    };
  }));
}

// A few runs get a column each, so that equal stages stand side by side.
const stackGrid = (runs, specs) => grid(
    runs.length > 1 && runs.length <= 3 ? specs : specs.filter(Boolean),
    runs.length > 1 && runs.length <= 3 ? runs.length : 0);

khost.rewards = function(runs) {
  const specs = stacks(runs, "rewards", (run, _, level) => khost.levelColour(level, run.rewards.levels.length));
  return khost.section(
      "rewards", "Rewards", "share of trajectories by reward, over the steps of each stage or by policy",
      specs.length ? stackGrid(runs, specs) :
                     khost.empty("No trajectory is stored; a run that only judges kernels has none."));
};

khost.verdicts = function(runs) {
  const specs = stacks(runs, "statuses", (run, name) => khost.statusColour(name, run.meaning));
  const watch = runs.map(
      (run) => run.alarms.length ?
          h("p", {class: "alarmed"}, khost.many(run.alarms.length, "kind", "kinds"), " of verdicts to worry about",
            runs.length > 1 && " in " + khost.runName(run), ", ", h("a", {href: "#overview"}, "listed at the top")) :
          h("p", {class: "calm"}, "No alarm", runs.length > 1 && " in " + khost.runName(run), CALM));
  return khost.section(
      "verdicts", "Verdicts", "share by status over the steps of each stage or by policy, and the watch over them",
      watch, specs.length ? stackGrid(runs, specs) : khost.empty("No verdict is stored yet."));
};

function bars(run, drop) {
  const most = Math.max(1, ...drop.rows.map((row) => row.count)),
        sum = drop.rows.reduce((total, row) => total + row.count, 0);
  return h(
      "div", {class: "drop"}, h("h4", null, drop.title),
      drop.rows.length ? h("ol", {class: "bars"},
                           drop.rows.map(
                               (row) =>
                                   h("li", {title: (run.meaning[row.status] || {}).sentence},
                                     h("span", {class: "bar-label"}, row.label || "(none)"),
                                     h("span", {class: "bar-track"}, h("span", {
                                         class: "bar-fill",
                                         style: {
                                           width: (100 * row.count) / most + "%",
                                           background: row.status ? khost.statusColour(row.status, run.meaning) : false
                                         }
                                       })),
                                     h("span", {class: "bar-count"}, khost.number(row.count),
                                       h("span", {class: "note"}, " " + khost.percent(row.count / sum)))))) :
                         khost.empty(drop.empty));
}

khost.drops = (runs) => khost.section(
    "reasons", "Reasons", "what was dropped, how episodes ended, and why verdicts failed",
    h("div", {class: runs.length > 1 ? "side-by-side" : ""},
      runs.map(
          (run, index) =>
              h("div", null, runs.length > 1 && h("h3", {class: "run-title"}, khost.runMark(index), khost.runName(run)),
                h("div", {class: "drops"}, run.drops.map((drop) => bars(run, drop)))))));
})();
