"use strict";
// Fastest, slowest and wrong kernels beside the reference.
(function() {
const h = khost.h;

// Times of candidate and baselines as bars of one scale.
function race(kernel) {
  const times = [
    ["kernel", kernel.candidate_s, "own"], ["eager", kernel.eager_s, ""], ["compile", kernel.compile_s, ""]
  ].filter((row) => typeof row[1] === "number");
  if (!times.length) return null;
  const most = Math.max(...times.map((row) => row[1]));
  return h(
      "ol", {class: "bars race"},
      times.map(
          ([name, seconds, kind]) =>
              h("li", null, h("span", {class: "bar-label"}, name),
                h("span", {class: "bar-track"},
                  h("span", {class: "bar-fill " + kind, style: {width: (100 * seconds) / most + "%"}})),
                h("span", {class: "bar-count"}, khost.duration(seconds)))));
}

function difference(kernel) {
  const say = (ratio, name) =>
      typeof ratio === "number" && h("li", null, h("strong", null, khost.times(ratio)), ` as fast as ${name}`);
  const list = [
    say(kernel.speedup_eager, "PyTorch eager"), say(kernel.speedup_compile, "torch.compile"),
    kernel.speed === "unresolved" && h("li", null, "the speed is unresolved: no faster flag counts")
  ].filter(Boolean);
  return list.length > 0 && h("ul", {class: "plain"}, list);
}

function body(run, kernel) {
  const source = run.sources[kernel.task];
  const reference =
      h("div", null, h("h4", null, "Reference"),
        source ? khost.code(source, "python", "model.py") : khost.empty("The task's source is not in this store."));
  const own = h(
      "div", null, h("h4", null, "Kernel"),
      kernel.files.length ? kernel.files.map((file) => khost.code(file.text, khost.languageOf(file.path), file.path)) :
                            khost.empty("No file of its own."),
      kernel.given.length > 0 &&
          h("p", {class: "note"}, "Unchanged headers of the template: " + kernel.given.join(", ")));
  return h(
      "div", {class: "kernel-body"},
      h("div", {class: "facts-row"}, race(kernel),
        h("div", null, difference(kernel), kernel.detail && h("p", {class: "detail"}, kernel.detail),
          kernel.trajectory && khost.canRead(run, kernel.trajectory) &&
              h("p", null, khost.readLink(run, kernel.trajectory, "read its trajectory")))),
      h("div", {class: "beside"}, reference, own),
      kernel.diff && [h("h4", null, "Difference to the reference"), khost.code(kernel.diff, "diff")]);
}

function card(run, kernel, kind) {
  const ratio = kernel.speedup_compile === undefined || kernel.speedup_compile === null ? kernel.speedup_eager :
                                                                                          kernel.speedup_compile;
  const base = kernel.speedup_compile === undefined || kernel.speedup_compile === null ? "eager" : "compile";
  const lead = kind === "wrong" ?
      h("span", {class: "lead wrong"}, kernel.status) :
      h("span", {class: "lead"}, khost.times(ratio), h("span", {class: "note"}, " vs " + base));
  const facts = [
    kernel.policy, kernel.stage && kernel.stage + (typeof kernel.step === "number" ? " step " + kernel.step : ""),
    kind === "wrong" ? khost.many(kernel.count, "verdict", "verdicts") + " of this kind" : null
  ].filter(Boolean).join(" · ");
  return khost.fold(
      `kernel-${run.id}-${kind}-${kernel.id}`,
      [
        lead, h("span", {class: "kernel-name"}, kernel.name),
        kind === "wrong" && kernel.reason && h("code", null, kernel.reason), h("span", {class: "note"}, facts)
      ],
      () => body(run, kernel), {class: "kernel"});
}

function list(run, kind, title, empty) {
  return h(
      "div", null, h("h3", null, title),
      run.kernels[kind].length ? run.kernels[kind].map((kernel) => card(run, kernel, kind)) : khost.empty(empty));
}

khost.kernels = (runs) => khost.section(
    "kernels", "Kernels", "open one to see it beside the reference",
    h("div", {class: runs.length > 1 ? "side-by-side" : ""},
      runs.map(
          (run, index) =>
              h("div", null, runs.length > 1 && h("h3", {class: "run-title"}, khost.runMark(index), khost.runName(run)),
                list(run, "best", "Fastest right kernels", "No right kernel was timed."),
                list(
                    run, "worst", "Slowest right kernels",
                    run.kernels.best.length ? "All that were timed are listed above." : "No right kernel was timed."),
                list(run, "wrong", "Wrong kernels, one of each kind", "No verdict failed.")))));
})();
