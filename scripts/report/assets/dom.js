"use strict";
// Elements, numbers and colours for the other scripts. Texts become text nodes and nothing else: no script of the
// page assigns markup.
const khost = {
  state: {},
  data: null
};

// h("p", {class: "note", onclick: f}, "text", node, [more]): attributes by name, listeners by "on…"; what is false is
// left out.
khost.h = function(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on"))
      element.addEventListener(name.slice(2), value);
    else if (name === "style")
      Object.entries(value).forEach(([key, item]) => element.style.setProperty(key, item));
    else
      element.setAttribute(name, value === true ? "" : String(value));
  }
  const add = (child) => {
    if (Array.isArray(child))
      child.forEach(add);
    else if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  };
  children.forEach(add);
  return element;
};

khost.number = function(value) {
  if (typeof value !== "number" || !isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return value.toLocaleString("en-US", {maximumSignificantDigits: 4});
};

khost.duration = function(s) {
  if (typeof s !== "number") return "–";
  if (s === 0) return "0 s";
  if (s < 1e-3) return (s * 1e6).toFixed(1) + " µs";
  if (s < 1) return (s * 1e3).toFixed(s < 0.01 ? 2 : 1) + " ms";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + String(Math.floor(s % 60)).padStart(2, "0") + " s";
  return Math.floor(s / 3600) + " h " + String(Math.floor((s % 3600) / 60)).padStart(2, "0") + " min";
};

khost.percent = (share) =>
    (typeof share === "number" && isFinite(share) ? (share * 100).toFixed(share < 0.1 ? 1 : 0) + " %" : "–");
khost.times = (ratio) => (typeof ratio === "number" ? khost.number(Number(ratio.toPrecision(3))) + "×" : "–");
khost.date = (s) =>
    (typeof s === "number" ? new Date(s * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC" : "–");
khost.many = (n, one, more) => khost.number(n) + " " + (n === 1 ? one : more);

// A colour of the style sheet.
khost.css = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
khost.series = (index) => khost.css("series-" + ((index % 8) + 1));

// The colour of a verdict's status: by its own name, else by whose fault it is, else the one of an unknown word.
khost.statusColour = function(status, meaning) {
  const own = khost.css("status-" + status.replace(/[^a-z_]/g, ""));
  if (own) return own;
  return meaning && meaning[status] ? khost.css("faint") : khost.css("alarm");
};

// From the least reward, red, to the greatest, green; the last level is what has no reward.
khost.levelColour = function(index, count) {
  if (index === count - 1) return khost.css("level-none");
  const place = count <= 2 ? 1 : index / (count - 2);
  const hue = 12 + 138 * place, dark = khost.dark();
  return `hsl(${hue.toFixed(0)} ${dark ? 36 : 42}% ${dark ? 48 - 8 * place : 60 - 15 * place}%)`;
};

khost.dark = () => document.documentElement.dataset.theme === "dark";

khost.section = function(id, title, note, ...children) {
  return khost.h(
      "section", {id, "aria-labelledby": id + "-title"},
      khost.h(
          "div", {class: "section-head"}, khost.h("h2", {id: id + "-title"}, title),
          note && khost.h("p", {class: "note"}, note)),
      children);
};

// Seconds by what they were spent on, the most first: "drawing 12 s".
khost.spent = (parts, most) => Object.entries(parts || {})
                                   .filter(([name]) => name !== "wall" && name !== "nothing")
                                   .sort((a, b) => b[1] - a[1])
                                   .slice(0, most)
                                   .map(([name, seconds]) => `${name.replace(/_/g, " ")} ${khost.duration(seconds)}`);

khost.empty = (text) => khost.h("p", {class: "empty"}, text);

// A <details> whose being open outlives a new drawing of the page.
khost.fold = function(key, summary, make, attributes) {
  const opened = (khost.state.opened = khost.state.opened || {});
  const details = khost.h("details", {open: !!opened[key], ...attributes}, khost.h("summary", null, summary));
  const fill = () => {
    if (details.childElementCount === 1) [].concat(make()).forEach((child) => child && details.append(child));
  };
  if (opened[key]) fill();
  details.addEventListener("toggle", () => {
    opened[key] = details.open;
    if (details.open) fill();
  });
  return details;
};

// Runs are told apart by colour and by letter.
khost.runMark = (index) =>
    khost.h("span", {class: "mark", style: {background: khost.series(index)}, "aria-hidden": "true"});
khost.runName = function(run) {
  return run.id.replace(
      /^(\d{4})(\d{2})(\d{2})-(\d{2})(\d{2})(\d{2})-/, (_, y, m, d, hour, minute) => `${m}-${d} ${hour}:${minute} `);
};
