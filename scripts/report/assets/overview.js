"use strict";
// What a reader sees first: state and totals of the runs, alarms, and when which stage ran.
(function() {
const h = khost.h;

const ended = (run) => run.finished_s || khost.data.generated_s;
const passRate = (run) => (run.totals.verdicts ? run.totals.correct / run.totals.verdicts : null);

// The last value of a metric, of the stage that ran last.
function last(run, name) {
  let found = null;
  for (const stage of run.stages) {
    const curve = run.curves.find((one) => one.stage === stage.stage && one.name === name);
    if (curve && curve.y.length) found = {value: curve.y[curve.y.length - 1], stage: stage.stage};
  }
  return found;
}

khost.pill = (status) =>
    h("span", {class: "pill pill-" + (/^(done|running|failed|stopped)$/.test(status) ? status : "other")},
      status || "unknown");

function tiles(run) {
  const reward = last(run, "reward"), validation = last(run, "validation_pass");
  const list = [
    ["Wall time", khost.duration(ended(run) - run.started_s), khost.many(run.stages.length, "stage", "stages")],
    [
      "Trajectories", khost.number(run.totals.trajectories),
      run.totals.tokens ? khost.number(run.totals.tokens) + " tokens" : null
    ],
    [
      "Verdicts", khost.number(run.totals.verdicts),
      passRate(run) === null ? null : khost.percent(passRate(run)) + " correct"
    ],
    ["Tasks kept", khost.number(run.totals.tasks), null],
    reward && ["Last mean reward", khost.number(reward.value), reward.stage],
    validation && ["Last validation pass", khost.percent(validation.value), validation.stage],
    [
      "Fastest kernel", khost.times(run.totals.speedup),
      run.totals.speedup ? "against its baseline" : "nothing was timed"
    ],
  ];
  return h(
      "dl", {class: "tiles"},
      list.filter(Boolean).map(
          ([name, value, more]) =>
              h("div", {class: "tile"}, h("dt", null, name), h("dd", null, value),
                more && h("dd", {class: "note"}, more))));
}

function compared(runs) {
  const rows = runs.map(
      (run, index) =>
          [h("span", null, khost.runMark(index), khost.runName(run)), khost.pill(run.status), run.recipe, run.preset,
           run.seed, khost.duration(ended(run) - run.started_s), khost.number(run.totals.trajectories),
           khost.number(run.totals.verdicts), khost.percent(passRate(run)),
           khost.number((last(run, "reward") || {}).value), khost.times(run.totals.speedup)]);
  return khost.table(
      [
        "run", "status", "recipe", "preset", "seed", "wall time", "trajectories", "verdicts", "correct", "last reward",
        "fastest kernel"
      ],
      rows);
}

// Lines "key = value" of the configurations that are not the same everywhere.
function differences(runs) {
  const maps = runs.map(
      (run) => new Map(run.config.split("\n")
                           .filter((line) => line.includes(" = "))
                           .map((line) => line.split(/ = (.*)/s).slice(0, 2))));
  const keys = [...new Set(maps.flatMap((map) => [...map.keys()]))].sort();
  const rows =
      keys.filter((key) => new Set(maps.map((map) => map.get(key))).size > 1)
          .map((key) => [h("code", null, key), ...maps.map((map) => map.get(key) === undefined ? "–" : map.get(key))]);
  return h(
      "div", null, h("h3", null, "Configuration that differs"),
      rows.length ? khost.table(["key", ...runs.map(khost.runName)], rows) :
                    khost.empty("All runs have the same configuration."));
}

khost.table = (columns, rows) =>
    h("div", {
      class: "scroll",
      tabindex: "0",
      role: "region",
      "aria-label": "table with columns " + columns.slice(0, 3).join(", ")
    },
      h("table", null, h("thead", null, h("tr", null, columns.map((column) => h("th", {scope: "col"}, column)))),
        h("tbody", null,
          rows.map(
              (row) => h(
                  "tr", null,
                  row.map(
                      (cell) => h(
                          "td", {class: /^[-–]?[\d.,]+(\s?[a-z%×µ]+)?$/.test(cell) ? "figure" : false}, cell)))))));

function timeline(run, index, runs) {
  if (!run.stages.length) return khost.empty("No stage has begun yet.");
  const begin = Math.min(...run.stages.map((stage) => stage.started_s)),
        end = Math.max(...run.stages.map((stage) => stage.finished_s || khost.data.generated_s));
  const span = Math.max(end - begin, 1e-6), place = (s) => (100 * (s - begin)) / span;
  const rows = run.stages.map((stage) => {
    const until = stage.finished_s || khost.data.generated_s, seconds = until - stage.started_s;
    const counts = [
      stage.trajectories && khost.many(stage.trajectories, "trajectory", "trajectories"),
      stage.verdicts && khost.many(stage.verdicts, "verdict", "verdicts"),
      typeof stage.reward === "number" && "reward " + khost.number(stage.reward),
      stage.attempts > 1 && "begun " + stage.attempts + " times", ...khost.spent(stage.spent, 3)
    ].filter(Boolean).join(" · ");
    return h(
        "li", {title: `${stage.stage}: ${khost.duration(seconds)}, ${khost.date(stage.started_s)}. ${counts}`},
        h("span", {class: "lane-name"}, stage.stage),
        h("span", {class: "lane"}, h("span", {
            class: "bar" + (stage.finished_s ? "" : " bar-running"),
            style:
                {left: place(stage.started_s) + "%", width: Math.max(0.3, place(until) - place(stage.started_s)) + "%"}
          })),
        h("span", {class: "lane-time"}, khost.duration(seconds)), h("span", {class: "lane-note note"}, counts));
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => h("span", null, khost.duration(share * span)));
  return h(
      "div", {class: "timeline"}, runs.length > 1 && h("h3", null, khost.runMark(index), khost.runName(run)),
      h("ol", null, rows), h("div", {class: "lane-axis", "aria-hidden": "true"}, ticks));
}

khost.alarmList = function(run) {
  return run.alarms.map((alarm) => {
    const where = alarm.first_step === undefined ? alarm.stage :
        alarm.first_step === alarm.last_step     ? `${alarm.stage}, step ${alarm.first_step}` :
                                                   `${alarm.stage}, steps ${alarm.first_step} to ${alarm.last_step}`;
    return h(
        "li", null, h("strong", null, alarm.status || "(no status)"), " in ", where, ": ", alarm.text, " — ",
        khost.many(alarm.count, "verdict", "verdicts"),
        alarm.trajectory && khost.canRead(run, alarm.trajectory) &&
            [", ", khost.readLink(run, alarm.trajectory, "read trajectory " + alarm.trajectory)]);
  });
};

function banner(runs) {
  return runs.map((run, index) => {
    if (!run.alarms.length) return null;
    const grave = run.alarms.filter((alarm) => alarm.level === "alarm").length;
    return h(
        "div", {class: "banner " + (grave ? "grave" : "look"), role: "alert"},
        h("p", null, runs.length > 1 && [khost.runMark(index), khost.runName(run), ": "],
          h("strong", null, grave ? "Verdicts that should not be there" : "Verdicts to look at")),
        h("ul", null, khost.alarmList(run)));
  });
}

khost.overview = function(runs) {
  const one = runs.length === 1;
  return khost.section(
      "overview", "Overview",
      one ?
          `${runs[0].recipe}, preset ${runs[0].preset}, seed ${runs[0].seed}; begun ${khost.date(runs[0].started_s)}` :
          `${runs.length} runs side by side`,
      banner(runs), one ? tiles(runs[0]) : [compared(runs), differences(runs)], h("h3", null, "Stages"),
      runs.map((run, index) => timeline(run, index, runs)));
};
})();
