-- Value pretraining: the critic learns the outcome of collected trajectories. A quarter of them only measures.
--
-- With value.episodes the actor that PPO begins with, the fine-tuned one, plays so many more: what others did before it
-- says less about its own chances.
--
-- The explained variance is printed against Monte-Carlo returns, before and after, whatever it is:
-- against lambda-returns a critic that knows nothing scores high.

local collect = require "recipes.stages.collect"
local episode = require "agent.episode"
local models = require "training.models"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local progress = require "khost.progress"
local random = require "lib.random"
local tables = require "evaluation.table"
local trainer = require "training.trainer"

local stage = { name = "value", summary = "pretrains the critic" }

local function parts_of(run, episodes, share)
  local shuffled = random.stream("value " .. run.seed):shuffled(episodes)
  local held, rest = {}, {}
  for index, e in ipairs(shuffled) do
    local list = index <= math.floor(#shuffled * share) and held or rest
    list[#list + 1] = e
  end
  return rest, held
end

local function epoch_of(run, critic, batch, c, epoch, step)
  assert(batch:fill("values", critic))
  -- Targets follow the critic where lambda is below 1.
  batch:advantages { gamma = 1, lambda = c.lambda, whiten = false }
  local sum, count = 0, 0
  for part in batch:split(c.batch, 1, { seed = run.seed * 100 + epoch }) do
    local metrics = assert(critic:update(part, trainer.value { clip = 0 }, { lr = c.lr, max_norm = 1 }))
    step, sum, count = step + 1, sum + metrics.loss, count + 1
    ppo.keep_metrics(run, stage.name, step, { loss = metrics.loss, norm = metrics.norm })
  end
  return sum / count, step
end

function stage.execute(run)
  run:need("collect")
  local c, episodes, stages = run.config.value, {}, { unpack(run.config.value.stages) }
  local actor = models.open(run, run:need("rft").actor)
  if (c.episodes or 0) > 0 then
    collect.play(run, actor, "rft", stage.name, c.episodes)
    stages[#stages + 1] = stage.name
  end
  for _, e in ipairs(episode.of_stages(run, stages)) do
    if e.reward and e.tokens then
      episodes[#episodes + 1] = e
    end
  end
  local critic = actor:critic()
  local learn, measure = parts_of(run, episodes, c.held_out)
  local pack = { tokens = run.config.ppo.pack_tokens }
  local batch, held = trainer.pack(learn, pack), trainer.pack(measure, pack)
  local before, losses, step = assert(held:evaluate(critic)), {}, 0
  local bar = progress.begin("value", c.epochs)
  for epoch = 1, c.epochs do
    local loss
    loss, step = epoch_of(run, critic, batch, c, epoch, step)
    losses[epoch] = { epoch = epoch, loss = loss }
    bar:add(1, { loss = ("%.3f"):format(loss) })
  end
  bar:finish()
  local after = assert(held:evaluate(critic))
  local folder = models.keep(run, stage.name, "critic", critic)
  critic:close()
  return { critic = folder, ev_mc_before = before.ev_mc,
    ev_mc_after = after.ev_mc, tables = {
      { title = "Value pretraining, on held-out trajectories", columns = { "", "value loss", "ev_mc", "ev_lambda" },
        rows = { { "before", tables.number(before.value_loss), tables.number(before.ev_mc),
          tables.number(before.ev_lambda) }, { "after", tables.number(after.value_loss), tables.number(after.ev_mc),
          tables.number(after.ev_lambda) } } },
      tables.of("Loss", { "epoch", "loss" }, losses) } }
end

return pipeline.standalone(stage)
