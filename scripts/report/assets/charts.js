"use strict";
// Curves and stacks by Chart.js, each with a legend of buttons and its figures as a table. A chart is made when it
// comes into view: a run has a hundred metrics.
(function() {
const h = khost.h;
let live = [];  // charts that exist now
const shared = {
  x: null,
  group: null
};

// The step under the pointer, drawn in all charts of the group.
const crosshair = {
  id: "crosshair",
  afterEvent(chart, {event}) {
    const group = chart.options.khostGroup;
    if (!group) return;
    const out = event.type === "mouseout" || !chart.chartArea || event.x < chart.chartArea.left ||
        event.x > chart.chartArea.right;
    const x = out ? null : chart.scales.x.getValueForPixel(event.x);
    if (x === shared.x && group === shared.group) return;
    Object.assign(shared, {x, group});
    live.forEach((other) => other !== chart && other.options.khostGroup === group && other.draw());
  },
  afterDraw(chart) {
    if (shared.x === null || chart.options.khostGroup !== shared.group) return;
    const {ctx, chartArea: area, scales} = chart, at = scales.x.getPixelForValue(shared.x);
    if (at < area.left || at > area.right) return;
    ctx.save();
    ctx.strokeStyle = khost.css("faint");
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(at, area.top);
    ctx.lineTo(at, area.bottom);
    ctx.stroke();
    ctx.restore();
  },
};

khost.forgetCharts = function() {
  live.forEach((chart) => chart.destroy());
  live = [];
  observer && observer.disconnect();
};

const waiting = new WeakMap();
const observer = typeof IntersectionObserver === "function" ? new IntersectionObserver((entries) => {
  entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    observer.unobserve(entry.target);
    waiting.get(entry.target)();
  });
}, {rootMargin: "300px"}) : null;

function whenSeen(element, make) {
  if (!observer) return make();
  waiting.set(element, make);
  observer.observe(element);
}

function axis(more) {
  const font = {family: khost.css("sans"), size: 11};
  return {
    grid: {color: khost.css("grid"), drawTicks: false},
    border: {display: false},
    ticks: {color: khost.css("soft"), font, padding: 6, maxTicksLimit: 6, maxRotation: 0, ...more.ticks},
    ...more.axis
  };
}

function tooltip(callbacks) {
  return {
    backgroundColor: khost.css("tooltip"),
    titleColor: khost.css("tooltip-text"),
    bodyColor: khost.css("tooltip-text"),
    padding: 10,
    cornerRadius: 6,
    boxPadding: 4,
    usePointStyle: true,
    caretSize: 0,
    bodyFont: {family: khost.css("sans"), size: 12},
    titleFont: {family: khost.css("sans"), size: 12, weight: "600"},
    callbacks
  };
}

// An exponential mean with the weight of what came before; what it is worth at the start is corrected for.
khost.smooth = function(values, weight) {
  let sum = 0, total = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return sum / total;
  });
};

function lineConfig(spec) {
  const datasets = [];
  for (const line of spec.series) {
    const points = (values) => line.x.map((x, index) => ({x, y: values[index]}));
    const few = line.x.length <= 30;
    const base = {
      label: line.name,
      borderColor: line.colour,
      backgroundColor: line.colour,
      borderWidth: 1.8,
      borderDash: line.dash || [],
      pointRadius: few ? 2.5 : 0,
      pointHoverRadius: 4,
      pointBorderWidth: 0,
      pointStyle: "circle",
      tension: 0,
      khostLine: line
    };
    if (spec.smoothing > 0 && line.x.length > 2) {
      datasets.push({
        ...base,
        data: points(line.y),
        borderColor: line.colour + "40",
        backgroundColor: line.colour + "40",
        pointRadius: 0,
        pointHoverRadius: 0,
        borderWidth: 1,
        khostRaw: true
      });
      datasets.push({...base, data: points(khost.smooth(line.y, spec.smoothing)), pointRadius: 0});
    } else
      datasets.push({...base, data: points(line.y)});
  }
  return {
    type: "line",
    data: {datasets},
    plugins: [crosshair],
    options: {
      parsing: false,
      animation: false,
      normalized: true,
      responsive: true,
      maintainAspectRatio: false,
      khostGroup: "steps",
      interaction: {mode: "nearest", axis: "x", intersect: false},
      events: ["mousemove", "mouseout", "touchstart", "touchmove"],
      plugins: {
        legend: {display: false},
        tooltip: {
          ...tooltip({
            title: (items) => "step " + khost.number(items[0] && items[0].parsed.x),
            label: (item) => ` ${item.dataset.label}: ${khost.number(item.parsed.y)}`
          }),
          filter: (item) => !item.dataset.khostRaw
        }
      },
      scales: {
        x: axis({
          axis: {type: "linear", title: {display: false}},
          ticks: {callback: (value) => (Number.isInteger(value) ? khost.number(value) : "")}
        }),
        y: axis({axis: {...spec.range}, ticks: {callback: khost.number}})
      }
    }
  };
}

function stackConfig(spec) {
  const sums = spec.x.map((_, column) => spec.series.reduce((sum, layer) => sum + layer.counts[column], 0));
  const wide = spec.x.length > 24;
  return {
    type: "bar",
    data: {
      labels: spec.x.map(String),
      datasets: spec.series.map(
          (layer) => ({
            label: layer.name,
            khostLine: layer,
            data: layer.counts.map((count, column) => (sums[column] ? (100 * count) / sums[column] : 0)),
            backgroundColor: layer.colour,
            borderWidth: 0,
            barPercentage: wide ? 1 : 0.88,
            categoryPercentage: 1,
            maxBarThickness: 64,
            pointStyle: "rect"
          }))
    },
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      interaction: {mode: "index", intersect: false},
      plugins: {
        legend: {display: false},
        tooltip: {
          ...tooltip({
            title: (items) => (spec.unit || "step") + " " + (items[0] && items[0].label),
            label: (item) => ` ${item.dataset.label}: ${khost.number(item.dataset.khostLine.counts[item.dataIndex])} (${
                item.parsed.y.toFixed(0)} %)`
          }),
          filter: (item) => item.dataset.khostLine.counts[item.dataIndex] > 0,
          itemSort: (a, b) => b.datasetIndex - a.datasetIndex
        }
      },
      scales: {
        x: axis({axis: {stacked: true, grid: {display: false}}, ticks: {maxTicksLimit: 10, autoSkip: true}}),
        y: axis({axis: {stacked: true, min: 0, max: 100}, ticks: {callback: (value) => value + " %", maxTicksLimit: 5}})
      }
    }
  };
}

const MOST_ROWS = 200;  // of a chart's table
function tableOf(spec) {
  const names = spec.series.map((line) => line.name), rows = new Map();
  spec.series.forEach((line, place) => (line.x || spec.x).forEach((x, index) => {
    if (!rows.has(x)) rows.set(x, []);
    rows.get(x)[place] = (line.y || line.counts)[index];
  }));
  const sorted = [...rows.entries()].sort((a, b) => (typeof a[0] === "number" ? a[0] - b[0] : 0));
  return h(
      "div", {class: "scroll", tabindex: "0", "aria-label": spec.title + " as a table"},
      h("table", {class: "figures"},
        h("thead", null, h("tr", null, h("th", null, spec.unit || "step"), names.map((name) => h("th", null, name)))),
        h("tbody", null,
          sorted.slice(0, MOST_ROWS)
              .map(
                  ([x, values]) =>
                      h("tr", null, h("td", null, typeof x === "number" ? khost.number(x) : x),
                        names.map(
                            (_, place) =>
                                h("td", null, values[place] === undefined ? "" : khost.number(values[place]))))))),
      sorted.length > MOST_ROWS && h("p", {class: "note"}, `${sorted.length - MOST_ROWS} more steps are left out`));
}

function legend(spec, find) {
  if (spec.series.length < 2 && !spec.legend) return null;
  return h(
      "div", {class: "legend"},
      spec.series.map(
          (line) =>
              h("button", {
                type: "button",
                "aria-pressed": "true",
                title: "show or hide " + line.name,
                onclick(event) {
                  const chart = find(), button = event.currentTarget,
                        show = button.getAttribute("aria-pressed") !== "true";
                  button.setAttribute("aria-pressed", String(show));
                  if (!chart) return;
                  chart.data.datasets.forEach(
                      (dataset, index) => dataset.khostLine === line && chart.setDatasetVisibility(index, show));
                  chart.update("none");
                }
              },
                h("span", {class: "swatch" + (line.dash ? " dashed" : ""), style: {"--swatch": line.colour}}),
                line.name)));
}

// spec: {title, note?, kind: "line" | "stack", series: [{name, colour, dash?, x, y} or {name, colour, counts}], x?,
// unit?, range?, smoothing?, legend?}
khost.chart = function(spec) {
  const canvas = h("canvas", {role: "img", "aria-label": spec.title}), hold = h("div", {class: "plot"}, canvas);
  let chart = null;
  const table = h("div", {class: "as-table", hidden: true});
  const drawable = typeof Chart === "function";
  const toggle =
      h("button", {
        type: "button",
        class: "quiet",
        "aria-pressed": "false",
        title: "show the figures as a table",
        onclick() {
          show(table.hidden);
        }
      },
        "table");
  function show(asTable) {
    if (asTable && !table.childElementCount) table.append(tableOf(spec));
    table.hidden = !asTable;
    hold.hidden = asTable;
    toggle.setAttribute("aria-pressed", String(asTable));
  }
  const card =
      h("figure", {class: "chart"},
        h("figcaption", null, h("span", {class: "chart-title"}, spec.title),
          spec.note && h("span", {class: "note"}, spec.note), drawable && toggle),
        hold, table, legend(spec, () => chart));
  if (!drawable)
    show(true);
  else
    whenSeen(hold, () => {
      chart = new Chart(canvas, spec.kind === "stack" ? stackConfig(spec) : lineConfig(spec));
      live.push(chart);
    });
  return card;
};
})();
