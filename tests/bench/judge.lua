-- What the judge costs and how often it is wrong about equal programs: `khost tests/bench/judge.lua`.
--   --set mix=40      verdicts of an RL mix: 30 % do not build, 30 % are wrong, 40 % are timed; distinct sources
--   --set pairs=20    A/A verdicts: a program timed against itself, in processes of its own
--   --set busy=false  with a trainer that steps in this process meanwhile (needs a khost with the trainer)
-- Exit code 1 when more than 1 % of the A/A verdicts (and more than 2) said faster.
local args = require "lib.args"
local fixtures = require "tests.bench.fixtures"
local judge = require "khost.judge"
local log = require "khost.log"
local sched = require "khost.sched"

local OPTIONS = { { name = "--set", kind = "list", help = "mix=N, pairs=N, busy=true, jobs=N" } }
local ABOUT = { name = "judge", summary = "verdicts an hour, exclusive time, A/A" }
local DEFAULTS = { mix = 40, pairs = 20, busy = false, jobs = 2 }
local BROKEN, WRONG = "crash/does_not_compile", "wrong/off_by_one"

local function settings(list)
  local chosen = {}
  for key, value in pairs(DEFAULTS) do
    chosen[key] = value
  end
  for _, text in ipairs(list or {}) do
    local key, value = text:match("^(%w+)=(%w+)$")
    if not key or DEFAULTS[key] == nil then
      args.misuse(("--set %s: mix=N, pairs=N, busy=true or jobs=N expected"):format(text))
    end
    chosen[key] = type(DEFAULTS[key]) == "boolean" and value == "true" or tonumber(value)
    if chosen[key] == nil then
      args.misuse(("--set %s: a number expected"):format(text))
    end
  end
  return chosen
end

local function quantile(values, share)
  table.sort(values)
  return values[math.max(1, math.ceil(#values * share))] or 0
end

-- A trainer that steps until told to stop; counts its steps.
local function busy_trainer(state)
  local trainer = require "khost.trainer"
  local actor = assert(trainer.open { model = { vocabulary = 512, width = 128, layers = 4, heads = 4, positions = 512 },
    seed = 1 })
  local episodes = {}
  for i = 1, 16 do
    local tokens, mask, logprobs = {}, {}, {}
    for place = 1, 256 do
      tokens[place], mask[place], logprobs[place] = (place * i) % 512, place > 64 and 1 or 0, place > 64 and -1 or 0
    end
    episodes[i] = { tokens = tokens, mask = mask, logprobs = logprobs, reward = i % 2 }
  end
  local batch = trainer.pack(episodes, { tokens = 2048 })
  while not state.stop do
    assert(actor:update(batch, trainer.rft {}, { lr = 1e-5, max_norm = 1 }))
    state.steps = state.steps + 1
  end
end

local function mixed(process, count, jobs)
  local good, bodies = fixtures.names "good", {}
  for i = 1, count do
    local place = i % 10
    local name = place < 3 and BROKEN or place < 6 and WRONG or good[i % #good + 1]
    bodies[i] = fixtures.request(name, ("mix %d %d"):format(i, sched.now() * 1e6))
  end
  local exclusive, by_status, begin = {}, {}, sched.now()
  sched.map(bodies, function(body)
    local verdict = assert(process:request("evaluate", body))
    by_status[verdict.status] = (by_status[verdict.status] or 0) + 1
    exclusive[#exclusive + 1] = verdict.evidence.exclusive_s
  end, { limit = jobs + 1 })
  local seconds, parts = sched.now() - begin, {}
  for status, number in pairs(by_status) do
    parts[#parts + 1] = ("%d %s"):format(number, status)
  end
  table.sort(parts)
  log.print(("warm, %d distinct   %.2f s a verdict, %.0f verdicts an hour (%s)"):format(count, seconds / count,
    3600 * count / seconds, table.concat(parts, ", ")))
  log.print(("exclusive lease     median %.0f ms, 90 %% %.0f ms of a timed verdict"):format(
    quantile(exclusive, 0.5) * 1e3, quantile(exclusive, 0.9) * 1e3))
end

local function equal_programs(process, pairs_wanted)
  local faster, void, ratios, slack, brackets = 0, 0, {}, 0, 0
  for i = 1, pairs_wanted do
    local body = fixtures.request("good/layer_norm", ("pair %d %d"):format(i, sched.now() * 1e6))
    body.against = "self"
    local verdict = assert(process:request("evaluate", body))
    if verdict.status ~= "ok" then
      void = void + 1
    else
      faster = faster + (verdict.faster.self and 1 or 0)
      ratios[#ratios + 1] = verdict.speedup.self
      slack = verdict.slack_s
      brackets = brackets + #verdict.evidence.brackets.self
    end
  end
  log.print(("A/A, %d verdicts    %d called faster, %d not judged; ratio 1 %% %.3f, median %.3f, 99 %% %.3f; "
    .. "%.1f brackets each; slack %.0f us"):format(pairs_wanted, faster, void, quantile(ratios, 0.01),
    quantile(ratios, 0.5), quantile(ratios, 0.99), brackets / math.max(1, #ratios), slack * 1e6))
  return faster
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local chosen = settings(options.set)
  local process, begin = assert(judge.open { jobs = chosen.jobs }), sched.now()
  local first = assert(process:request("evaluate", fixtures.request("good/row_softmax")))
  log.print(("cold                %.1f s from start to the first verdict (%s)"):format(sched.now() - begin,
    first.status))
  for _, name in ipairs(fixtures.names "good") do  -- baselines
    assert(process:request("evaluate", fixtures.request(name)))
  end
  local state = { stop = false, steps = 0 }
  local training = chosen.busy and sched.spawn(busy_trainer, state) or nil
  if chosen.mix > 0 then
    mixed(process, chosen.mix, chosen.jobs)
  end
  local faster = chosen.pairs > 0 and equal_programs(process, chosen.pairs) or 0
  state.stop = true
  if training then
    training:wait()
    log.print(("trainer             %d steps meanwhile"):format(state.steps))
  end
  process:close()
  return faster <= math.max(2, 0.01 * chosen.pairs) and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
