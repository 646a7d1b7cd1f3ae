-- The learning curve of a run of the pipeline as one picture. Left: the share of right answers by step, in training and
-- on validation tasks, stage by stage. Right: the mean reward of the single answers that the evaluation asked of each
-- model, with 95 % intervals of a bootstrap over tasks.

local args = require "lib.args"
local fs = require "khost.fs"
local log = require "khost.log"
local markup = require "lib.markup"
local metrics = require "evaluation.metrics"
local random = require "lib.random"
local runs = require "run.runs"
local series = require "report.series"
local tables = require "evaluation.table"

local OPTIONS = {
  { name = "run", required = true, help = "a run of the pipeline: its folder, id, a part of one, or latest" },
  { name = "--output", kind = "text", help = "the file; curve.svg in the run's folder when absent" },
}
local ABOUT = { name = "recipes/curve.lua", summary = "the learning curve of a run as one SVG file" }

local STAGES = { "supervised", "single_turn", "agentic" }
local SINGLE = { [0] = true, [3] = true }  -- last digits of the steps at which recipes/stages/evaluate.lua asks once

-- What the picture shows on the left: base (validation pass) and stages: {name, training, validation, last, turns},
-- where training and validation are lists of {step, pass}.
local function curves_of(run)
  local found = {}
  for _, curve in ipairs(series.curves(run)) do
    local points = {}
    for index, step in ipairs(curve.x) do
      points[index] = { step, curve.y[index] }
    end
    found[curve.stage .. "/" .. curve.name] = points
  end
  local stages, base = {}, found["base/validation_pass"]
  for _, name in ipairs(STAGES) do
    local training, validation = found[name .. "/pass_rate"] or {}, found[name .. "/validation_pass"] or {}
    local turns, last = found[name .. "/validation_turns"], 1
    for _, points in ipairs { training, validation } do
      last = math.max(last, points[1] and points[#points][1] or 0)
    end
    if training[1] or validation[1] then
      stages[#stages + 1] = { name = name, training = training, validation = validation, last = last,
        turns = turns and turns[#turns][2] }
    end
  end
  return { base = base and base[#base][2], stages = stages }
end

-- What it shows on the right: {name, answers, tasks, mean, low, high} a model, the expert last. A void episode has no
-- reward and does not count.
local function rewards_of(run)
  local rows, models, experts, seed = {}, {}, {}, run:info().seed
  for _, row in ipairs(assert(run:query [[SELECT policy, step, task, reward AS value FROM trajectories
      WHERE stage = 'evaluate' AND reward IS NOT NULL AND policy IS NOT NULL AND task IS NOT NULL
      ORDER BY step, id]])) do
    if SINGLE[row.step % 10] then
      if not rows[row.policy] then
        local list = row.policy:match "^expert" and experts or models
        rows[row.policy], list[#list + 1] = {}, { name = row.policy }
      end
      table.insert(rows[row.policy], row)
    end
  end
  for _, expert in ipairs(experts) do
    models[#models + 1] = expert
  end
  for _, model in ipairs(models) do
    local names, values, means = {}, {}, metrics.means_by_task(rows[model.name])
    for task in pairs(means) do
      names[#names + 1] = task
    end
    table.sort(names)
    for index, task in ipairs(names) do
      values[index] = means[task]
    end
    model.answers, model.tasks, model.mean = #rows[model.name], #values, metrics.mean(values)
    model.low, model.high = metrics.bootstrap(values, random.stream(("%s curve %s"):format(seed, model.name)))
  end
  return models
end

local LEFT = { left = 40, title = 40, top = 82, width = 470, height = 220, base = 34, pad = 12 }
local RIGHT = { left = 632, title = 546, top = 82, width = 152, height = 220 }
local TRAINING, VALIDATION, GREY, GRID = "#8fb1d9", "#1f4e79", "#666", "#ddd"
local MOST_LABELS = 15  -- validation points that get their value in writing
local MOST_TICKS = 5    -- of a stage that get their step in writing; of more, only the last step

local function canvas()
  local parts = {}
  local function put(text, ...)
    parts[#parts + 1] = text:format(...)
  end
  local function write(x, y, anchor, colour, text)
    put('<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>', x, y, anchor, colour, markup.escape(text))
  end
  local function line(points, colour, width)
    if points[2] then
      put('<polyline fill="none" stroke="%s" stroke-width="%g" points="%s"/>', colour, width,
        table.concat(points, " "))
    end
  end
  -- A point and what it says under the mouse.
  local function mark(x, y, colour, text)
    put('<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%s</title></circle>', x, y, colour, markup.escape(text))
  end
  return { parts = parts, put = put, write = write, line = line, mark = mark }
end

local function share(value)
  return (("%.2f"):format(value):gsub("^0", ""))
end

local function frame(c, panel, title)
  c.put('<rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#bbb"/>', panel.left, panel.top, panel.width,
    panel.height)
  c.write(panel.title, 42, "start", "#000", title)
end

local function pass_axis(c, y_of)
  for tick = 0, 4 do
    local y = y_of(tick / 4)
    c.put('<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="%s"/>', LEFT.left, LEFT.left + LEFT.width, y, y, GRID)
    c.write(LEFT.left - 5, y + 4, "end", GREY, share(tick / 4))
  end
end

local function legend(c)
  local y = LEFT.top + LEFT.height + 46
  local x = LEFT.left
  c.line({ ("%g,%g"):format(x, y - 4), ("%g,%g"):format(x + 22, y - 4) }, TRAINING, 1.2)
  c.write(x + 28, y, "start", "#000", "training tasks")
  c.line({ ("%g,%g"):format(x + 130, y - 4), ("%g,%g"):format(x + 152, y - 4) }, VALIDATION, 2.5)
  c.put('<circle cx="%g" cy="%g" r="3.5" fill="%s"/>', x + 141, y - 4, VALIDATION)
  c.write(x + 158, y, "start", "#000", "validation tasks, which are never trained on")
end

-- One slice of the panel: its label, the steps under it, the training line; adds its validation points.
local function slice(c, stage, x_of, y_of, validated)
  local middle = (x_of(0) + x_of(stage.last)) / 2
  c.write(middle, 60, "middle", "#000", (stage.name:gsub("_", " ")))
  if stage.turns then
    c.write(middle, 74, "middle", GREY, stage.turns > 1 and "agent loop" or "single answers")
  end
  local thin = {}
  for index, point in ipairs(stage.training) do
    thin[index] = ("%.1f,%.1f"):format(x_of(point[1]), y_of(point[2]))
  end
  c.line(thin, TRAINING, 1.2)
  for _, point in ipairs(stage.validation) do
    validated[#validated + 1] = { x = x_of(point[1]), value = point[2],
      text = ("%s, step %d: validation pass %s"):format(stage.name, point[1], share(point[2])) }
    if #stage.validation <= MOST_TICKS then
      c.write(x_of(point[1]), LEFT.top + LEFT.height + 15, "middle", GREY, ("%d"):format(point[1]))
    end
  end
  if #stage.validation > MOST_TICKS or not stage.validation[1] then
    c.write(x_of(stage.last), LEFT.top + LEFT.height + 15, "middle", GREY, ("%d"):format(stage.last))
  end
end

local function validation_line(c, validated, y_of)
  local thick = {}
  for index, point in ipairs(validated) do
    thick[index] = ("%.1f,%.1f"):format(point.x, y_of(point.value))
  end
  c.line(thick, VALIDATION, 2.5)
  for index, point in ipairs(validated) do
    local y, before, behind = y_of(point.value), validated[index - 1], validated[index + 1]
    c.mark(point.x, y, VALIDATION, point.text)
    -- The value stands below in a valley of the line and near the upper edge.
    local valley = before and behind and math.min(before.value, behind.value) > point.value and point.value > 0.1
    if #validated <= MOST_LABELS then
      c.write(point.x, y + ((valley or point.value > 0.9) and 17 or -9), "middle", VALIDATION, share(point.value))
    end
  end
end

local function pass_panel(c, curves)
  local function y_of(value) return LEFT.top + LEFT.height * (1 - value) end
  local width = (LEFT.width - LEFT.base) / #curves.stages
  local validated = {}
  frame(c, LEFT, "Share of right answers by step")
  pass_axis(c, y_of)
  if curves.base then
    validated[1] = { x = LEFT.left + LEFT.base / 2, value = curves.base,
      text = ("base: validation pass %s"):format(share(curves.base)) }
    c.write(validated[1].x, LEFT.top + LEFT.height + 15, "middle", GREY, "base")
  end
  for index, stage in ipairs(curves.stages) do
    local begin = LEFT.left + LEFT.base + width * (index - 1)
    c.put('<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="#999" stroke-dasharray="3 3"/>', begin, begin, LEFT.top,
      LEFT.top + LEFT.height)
    slice(c, stage, function(step) return begin + LEFT.pad + (width - 2 * LEFT.pad) * step / stage.last end, y_of,
      validated)
  end
  validation_line(c, validated, y_of)
  c.write(LEFT.left + LEFT.width, LEFT.top + LEFT.height + 30, "end", GREY, "step of the stage")
  legend(c)
end

-- Whole numbers below and above all intervals, and the distance of ticks between them.
local function bounds(models)
  local low, high = math.huge, -math.huge
  for _, model in ipairs(models) do
    low, high = math.min(low, math.floor(model.low)), math.max(high, math.ceil(model.high))
  end
  high = math.max(high, low + 1)
  return low, high, math.ceil((high - low) / 6)
end

local function reward_panel(c, models, scheme)
  frame(c, RIGHT, ("Reward of single answers (%s)"):format(scheme))
  if not models[1] then
    c.write(RIGHT.left + RIGHT.width / 2, RIGHT.top + RIGHT.height / 2, "middle", GREY, "not evaluated")
    return
  end
  c.write(RIGHT.title, 60, "start", GREY, "mean over held-out and test tasks,")
  c.write(RIGHT.title, 74, "start", GREY, "95 % of a bootstrap over tasks")
  local low, high, distance = bounds(models)
  local function x_of(value) return RIGHT.left + RIGHT.width * (value - low) / (high - low) end
  for tick = low, high, distance do
    c.put('<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="%s"/>', x_of(tick), x_of(tick), RIGHT.top,
      RIGHT.top + RIGHT.height, GRID)
    c.write(x_of(tick), RIGHT.top + RIGHT.height + 15, "middle", GREY, ("%d"):format(tick))
  end
  for index, model in ipairs(models) do
    local y = RIGHT.top + RIGHT.height * (index - 0.4) / #models
    local text = ("%+.2f"):format(model.mean)
    c.write(RIGHT.left - 6, y + 4, "end", "#000", model.name)
    c.put('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/>', x_of(model.low),
      x_of(model.high), y, y, VALIDATION)
    c.mark(x_of(model.mean), y, VALIDATION, ("%s: reward %s [%+.2f, %+.2f], %d answers to %d tasks"):format(model.name,
      text, model.low, model.high, model.answers, model.tasks))
    c.write(math.min(math.max(x_of(model.mean), RIGHT.left + 18), RIGHT.left + RIGHT.width - 18), y - 8, "middle",
      VALIDATION, text)
  end
end

local function picture(info, curves, models)
  local c = canvas()
  c.put('<svg xmlns="http://www.w3.org/2000/svg" width="800" height="364" viewBox="0 0 800 364" '
    .. 'font-family="sans-serif" font-size="12">')
  c.put '<rect width="100%%" height="100%%" fill="#fff"/>'
  c.write(LEFT.left, 20, "start", GREY, ("%s, preset %s, seed %s"):format(info.id, info.preset ~= "" and info.preset
    or "-", runs.number(info.seed)))
  pass_panel(c, curves)
  reward_panel(c, models, info.config and info.config.reward and info.config.reward.scheme or "reward")
  return table.concat(c.parts, "\n") .. "\n</svg>\n"
end

local function print_rewards(models)
  local rows = {}
  for index, model in ipairs(models) do
    rows[index] = { model.name, tostring(model.answers), tostring(model.tasks), ("%+.2f"):format(model.mean),
      ("%+.2f to %+.2f"):format(model.low, model.high) }
  end
  log.print(tables.text({ "policy", "answers", "tasks", "reward", "95 %" }, rows))
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local store, why = runs.open(options.run ~= "latest" and options.run or nil)
  if not store then
    args.misuse(("%s: %s; expected a run's folder, its id, a part of one, or latest"):format(ABOUT.name, why))
  end
  local info, curves = store:info(), curves_of(store)
  if #curves.stages == 0 then
    args.misuse(("%s: run %s has neither pass_rate nor validation_pass of a stage %s; expected a run of "
      .. "recipes/full_pipeline.lua"):format(ABOUT.name, info.id, table.concat(STAGES, ", ")))
  end
  local models, output = rewards_of(store), options.output or store:folder() .. "/curve.svg"
  local written, problem = fs.write(output, picture(info, curves, models))
  store:close()
  if not written then
    fs.eprint(("%s: %s\n"):format(ABOUT.name, problem))
    return 1
  end
  if models[1] then
    print_rewards(models)
  end
  log.print(output)
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
