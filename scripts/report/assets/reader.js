"use strict";
// One trajectory, turn by turn from the task to its verdict.
(function() {
const h = khost.h;

khost.rewardOf = (one) => (typeof one.reward === "number" ? khost.number(one.reward) : "–");

function call(one) {
  const long = (argument) => argument.text.length > 60 || argument.text.includes("\n");
  const path = (one.arguments.find((argument) => /path|file/.test(argument.name)) || {}).text;
  return h(
      "div", {class: "call"},
      h("p", {class: "call-head"}, h("code", {class: "call-name"}, one.name),
        one.arguments.filter((argument) => !long(argument))
            .map((argument) => h("code", null, `${argument.name}=${argument.text}`)),
        (one.status && one.status !== "ok" || one.label) &&
            h("span", {class: "tag bad"}, [one.status !== "ok" && one.status, one.label].filter(Boolean).join(", "))),
      one.arguments.filter(long).map(
          (argument) =>
              khost.code(argument.text, argument.name === "command" ? "text" : khost.languageOf(path), argument.name)),
      observation(one.observation));
}

// What the environment answered; a long one is folded.
function observation(text) {
  if (!text) return null;
  const block = () => [h("pre", {class: "observation", tabindex: "0"}, text)];
  return text.length < 1500 ?
      block() :
      h("details", null, h("summary", null, `observation of ${khost.number(text.length)} characters`), block());
}

function turn(one) {
  const facts = [
    one.label, typeof one.seconds === "number" && khost.duration(one.seconds),
    one.tokens && khost.many(one.tokens, "token", "tokens")
  ].filter(Boolean).join(" · ");
  const answer = one.observation &&
      h("div", {class: "reply"},
        h("h5", null, one.tool || "reply",
          one.status && one.status !== "ok" && h("span", {class: "tag bad"}, one.status)),
        observation(one.observation));
  return h(
      "li", {class: "turn", tabindex: "-1", "aria-label": "turn " + one.index},
      h("h4", null, `Turn ${one.index}`, h("span", {class: "note"}, facts)),
      one.thought && h("div", {class: "thought"}, khost.prose(one.thought)), one.text && khost.prose(one.text),
      one.calls.map(call), answer, one.diff && [h("h5", null, "Changed files"), khost.code(one.diff, "diff")]);
}

function verdict(run, one) {
  const v = one.verdict, times = v.times || {}, speed = v.speedup || {};
  if (!v.status) return khost.empty("No verdict is stored.");
  const right = run.meaning[v.status] && run.meaning[v.status].counts === "passed";
  const facts = [
    [
      "status",
      [
        h("span", {class: "dot", style: {background: khost.statusColour(v.status, run.meaning)}}),
        v.status + (v.stage ? " at " + v.stage : "")
      ]
    ],
    v.reason && ["reason", v.reason], ["reward", khost.rewardOf(one)],
    typeof times.candidate_s === "number" &&
        [
          "time",
          `${khost.duration(times.candidate_s)}; eager ${khost.duration(times.eager_s)} (${
              khost.times(speed.eager)}), compile ${khost.duration(times.compile_s)} (${khost.times(speed.compile)})`
        ]
  ].filter(Boolean);
  return h(
      "div", {class: "verdict " + (right ? "right" : "failed")}, h("h4", null, "Verdict"),
      h("dl", {class: "facts"}, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
      v.detail && h("p", {class: "detail"}, v.detail));
}

khost.reader = function(run, one) {
  const labels = Object.entries(one.labels || {}).map(([name, count]) => h("span", {class: "tag"}, `${name} ${count}`));
  const facts = [
    one.stage && `${one.stage}, step ${khost.number(one.step)}, index ${khost.number(one.index)}`, one.policy,
    `ended by ${one.status || "–"}`, khost.many(one.turns.length, "turn", "turns"),
    one.tokens && khost.many(one.tokens, "token", "tokens"),
    typeof one.learnt === "number" && one.tokens && `${khost.number(one.learnt)} of them the policy's`,
    khost.duration(one.seconds)
  ].filter(Boolean).join(" · ");
  return [
    h("header", null, h("h3", null, one.name, h("span", {class: "note"}, " #" + one.id)),
      h("p", {class: "note"}, facts), labels, one.error && h("p", {class: "detail bad"}, one.error),
      one.void && h("p", {class: "detail"}, "no reward: " + one.void)),
    run.sources[one.task] &&
        h("details", null, h("summary", null, "Task: the reference"),
          khost.code(run.sources[one.task], "python", "model.py")),
    one.prompt.map(
        (message) =>
            h("details", null, h("summary", null, `Message: ${message.role}`),
              h("pre", {class: "observation", tabindex: "0"}, message.text))),
    one.turns.length ? h("ol", {class: "turns"}, one.turns.map(turn)) : khost.empty("No turn is stored."),
    verdict(run, one)
  ];
};
})();
