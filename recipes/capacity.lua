-- How many cards and builders a training run of a size needs: replays service times that a run measured, or given ones,
-- in a simulation of up to 1,024 cards and 100,000 episodes, and says where it saturates.

local args = require "lib.args"
local log = require "khost.log"
local random = require "lib.random"
local runs = require "run.runs"
local simulate = require "capacity.simulate"
local tables = require "evaluation.table"
local times = require "capacity.times"

local MOST_CARDS, MOST_EPISODES = 1024, 100000
local STRETCH = 1.1  -- an episode may take this many times as long as without a queue

local OPTIONS = {
  { name = "--run", kind = "text", help = "measured times of a run: its id, part of it, its path, or latest" },
  { name = "--episodes", kind = "number", default = 1024, help = "in all, at most 100000" },
  { name = "--concurrent", kind = "number", default = 1024, help = "at the same time" },
  { name = "--turns", kind = "number", help = "of an episode (150, the paper's, or those of the run)" },
  { name = "--requests", kind = "number", help = "share of turns that ask the judge (0.3, or that of the run)" },
  { name = "--tokens-per-second", kind = "number", default = 40, help = "of one episode, under load" },
  { name = "--tokens", kind = "number", help = "of an answer (600, or those of the run)" },
  { name = "--tools", kind = "number", default = 2, help = "seconds of a turn's tools, beside the judge" },
  { name = "--build", kind = "number", help = "seconds of a build (1.1, or those of the run)" },
  { name = "--verify", kind = "number", help = "seconds that a verification holds a card (0.09, or those of the run)" },
  { name = "--time", kind = "number", help = "seconds that a timed verdict holds a card (0.5, or those of the run)" },
  { name = "--cards", kind = "list", help = "numbers of cards to look at (1, 2, 4, … 1024)" },
  { name = "--builders", kind = "number", default = 14, help = "builds at once beside each card" },
  { name = "--update", kind = "number", help = "seconds of an update: episodes go in steps of --concurrent" },
  { name = "--seed", kind = "number", default = 1, help = "of the simulation" },
}
local ABOUT = { name = "recipes/capacity.lua", summary = "how many cards a training run needs, by simulation",
  notes = "Times that are neither given nor measured are those of one H200 (docs/cluster.md)." }

local DEFAULTS = { turns = 150, requests = 0.3, tokens = 600, build = 1.1, verify = 0.09, time = 0.5 }

local function checked(options)
  for _, name in ipairs { "episodes", "concurrent", "builders" } do
    if options[name] < 1 or options[name] ~= math.floor(options[name]) then
      args.misuse(("--%s %g: a whole number of at least 1 expected"):format(name, options[name]))
    end
  end
  if options.episodes > MOST_EPISODES then
    args.misuse(("--episodes %d: at most %d are simulated"):format(options.episodes, MOST_EPISODES))
  end
  local cards = {}
  for _, text in ipairs(options.cards) do
    local count = tonumber(text)
    if not count or count < 1 or count > MOST_CARDS or count ~= math.floor(count) then
      args.misuse(("--cards %s: a whole number from 1 to %d expected"):format(text, MOST_CARDS))
    end
    cards[#cards + 1] = count
  end
  local count = 1
  while #options.cards == 0 and count <= MOST_CARDS do
    cards[#cards + 1] = count
    count = count * 2
  end
  table.sort(cards)
  return cards
end

local function measured_by(options)
  if not options.run then
    return { build = {}, verify = {}, time = {}, turns = {}, tokens = {} }
  end
  local run, message = runs.open(options.run ~= "latest" and options.run or nil)
  if not run then
    args.misuse("--run: " .. message)
  end
  local found = times.of_run(run)
  run:close()
  return found
end

-- A source of numbers: what is given, else what was measured, else the default; with what it is for the report.
local function source(stream, options, found, name)
  local list = found[name]
  if not options[name] and #list > 0 then
    return times.measured(stream, list), ("%s: %.3g, the mean of %d measured"):format(name, times.mean(list), #list)
  end
  local mean = options[name] or DEFAULTS[name]
  return times.exponential(stream, mean), ("%s: %.3g, %s"):format(name, mean, options[name] and "given" or "assumed")
end

local function load_of(options, found, say)
  local stream = random.stream(("capacity %d"):format(options.seed))
  local load = { episodes = options.episodes, concurrent = options.concurrent, update_s = options.update }
  for _, name in ipairs { "build", "verify", "time" } do
    local about
    load[name], about = source(stream, options, found, name)
    say(about)
  end
  local tokens, about = source(stream, options, found, "tokens")
  say(about .. (" of an answer, at %g a second"):format(options.tokens_per_second))
  load.draw = function() return tokens() / options.tokens_per_second + options.tools end
  local turns = not options.turns and #found.turns > 0 and times.measured(stream, found.turns)
  local fixed = options.turns or DEFAULTS.turns
  load.turns = turns or function() return fixed end
  say(("turns: %.4g"):format(turns and times.mean(found.turns) or fixed))
  local share = options.requests or found.requests or DEFAULTS.requests
  load.request = function() return stream:number() < share end
  say(("turns that ask the judge: %.2g of all"):format(share))
  return load
end

local function row_of(cards, result, alone_s)
  local stretch = result.episode_s / alone_s
  return { cards = cards, stretch = stretch, result = result, texts = { ("%d"):format(cards),
    ("%.0f"):format(result.episodes_h), ("%.1f"):format(result.episode_s / 60), ("%.2f"):format(stretch),
    ("%.0f %%"):format(100 * result.cards.utilisation), ("%.0f %%"):format(100 * result.builders.utilisation),
    ("%.2f"):format(result.cards.wait_s), ("%.2f"):format(result.builders.wait_s) } }
end

-- Where a queue lengthens episodes no more, and what was the bottleneck below.
local function verdict_of(rows)
  local enough, bottleneck
  for _, row in ipairs(rows) do
    if row.stretch <= STRETCH then
      enough = row.cards
      break
    end
    local r = row.result
    bottleneck = r.cards.utilisation > r.builders.utilisation and "cards" or "builders"
  end
  if not enough then
    return ("saturated with all of these numbers of cards: the %s are the bottleneck"):format(bottleneck)
  elseif not bottleneck then
    return ("%d cards are enough; fewer were not looked at"):format(enough)
  end
  return ("saturates below %d cards, where the %s are the bottleneck; with %d an episode takes at most %g times what "
    .. "it takes without a queue"):format(enough, bottleneck, enough, STRETCH)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local cards, found = checked(options), measured_by(options)
  local load = load_of(options, found, log.print)
  -- Without a queue: as many of all as there are episodes.
  load.cards, load.builders = options.concurrent, options.concurrent
  local alone_s, rows = simulate.run(load).episode_s, {}
  for index, count in ipairs(cards) do
    load.cards, load.builders = count, count * options.builders
    rows[index] = row_of(count, simulate.run(load), alone_s)
  end
  local texts = {}
  for index, row in ipairs(rows) do
    texts[index] = row.texts
  end
  log.print(("\n%d episodes, %d at once\n"):format(options.episodes, options.concurrent)
    .. tables.text({ "cards", "episodes/h", "min an episode", "stretch", "cards busy", "builders busy", "wait card s",
      "wait build s" }, texts))
  log.print(verdict_of(rows))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, about = ABOUT, options = OPTIONS, run = run }
