-- Rejection fine-tuning: supervision on the policy's own trajectories that earned something and show no bad pattern.
--
-- Departure from the paper: `rft.stages` may name single_turn too. Its answers are the policy's own and judged already,
-- and on two cores every verdict counts.

local episode = require "agent.episode"
local live = require "run.live"
local models = require "training.models"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local progress = require "khost.progress"
local rejection = require "training.rejection"
local tables = require "evaluation.table"
local trainer = require "training.trainer"

local stage = { name = "rft", summary = "rejection fine-tuning on good trajectories" }

local function reason_table(by_reason)
  local rows = {}
  for reason, levels in pairs(by_reason) do
    local total, parts = 0, {}
    for level, count in pairs(levels) do
      total = total + count
      parts[#parts + 1] = ("%s: %d"):format(level, count)
    end
    table.sort(parts)
    rows[#rows + 1] = { reason, tostring(total), table.concat(parts, ", ") }
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return { title = "Dropped trajectories", columns = { "reason", "count", "by reward" }, rows = rows }
end

-- Only answers that nothing was wrong with are imitated: what a wrong one was followed by may be worth learning, the
-- wrong one is not. The paper trains on whole trajectories; `rft.answers = "all"` does.
local function good_answers(one)
  local mask, turn, inside, good = {}, 0, false, rejection.good_turns(one.turns)
  for at, bit in ipairs(one.mask) do
    turn = bit == 1 and not inside and turn + 1 or turn
    inside = bit == 1
    mask[at] = inside and good[turn] ~= false and 1 or 0
  end
  local copy = {}
  for name, value in pairs(one) do
    copy[name] = value
  end
  copy.mask = mask
  return copy
end

-- One pass over all parts a step of the table.
local function train(run, actor, kept, c, name)
  local losses, step = {}, 0
  local objective = trainer.rft { reduce = c.reduce }
  local bar = progress.begin(("%s, fitting"):format(name), c.epochs)
  if c.answers == "good" then
    for index, one in ipairs(kept) do
      kept[index] = good_answers(one)
    end
  end
  local batch = trainer.pack(kept, { tokens = run.config.ppo.pack_tokens })
  local before = assert(batch:evaluate(actor)).nll
  for epoch = 1, c.epochs do
    local sum, count = 0, 0
    for part in batch:split(c.batch, 1, { seed = run.seed * 100 + epoch }) do
      local metrics = assert(actor:update(part, objective, { lr = c.lr, max_norm = 1 }))
      step, sum, count = step + 1, sum + metrics.loss, count + 1
      ppo.keep_metrics(run, name, step, { loss = metrics.loss, norm = metrics.norm, lr = metrics.lr })
    end
    losses[epoch] = { epoch = epoch, loss = sum / count }
    bar:add(1, { loss = ("%.3f"):format(sum / count) })
  end
  bar:finish()
  return losses, before, assert(batch:evaluate(actor)).nll
end

--- Fits an actor to those of its episodes that a rubric keeps.
---@param run table
---@param actor khost.Trainer
---@param episodes table[]
---@param name string   of the stage, for its metrics
---@return table result   kept, dropped, reasons, tables; nll_before and nll_after where anything was kept
function stage.fit(run, actor, episodes, name)
  local c = run.config.rft
  -- Read when the stage begins, so that it may be edited until then; the store keeps its text.
  local rubric = assert(live.open("rubric", "rubrics." .. (c.rubric or "trajectory"), run.store,
    live.has_function "keep"))
  local kept, dropped, by_reason = rejection.sort(episodes, rubric:value().keep)
  local result = { kept = #kept, dropped = #dropped, reasons = by_reason, tables = { reason_table(by_reason) } }
  if #kept > 0 then
    local losses, before, after = train(run, actor, kept, c, name)
    result.nll_before, result.nll_after = before, after
    table.insert(result.tables, 1, { title = "Rejection fine-tuning",
      columns = { "trajectories", "kept", "nll before", "nll after" }, rows = { { tostring(#episodes), tostring(#kept),
        tables.number(before), tables.number(after) } } })
    table.insert(result.tables, tables.of("Loss", { "epoch", "loss" }, losses))
  end
  return result
end

function stage.execute(run)
  run:need("collect")
  local actor = models.open(run, run:need("single_turn").actor)
  local result = stage.fit(run, actor, episode.of_stages(run, run.config.rft.stages), stage.name)
  result.actor = models.keep(run, stage.name, "actor", actor)
  return result
end

return pipeline.standalone(stage)
