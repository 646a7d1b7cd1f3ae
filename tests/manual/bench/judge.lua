-- What the judge costs and how often it is wrong about equal programs: `khost tests/manual/bench/judge.lua`.
--   --set mix=40      verdicts of an RL mix: 30 % do not build, 30 % are wrong, 40 % are timed; distinct sources
--   --set timed=40    before them, verdicts of which all are timed (without it as many as of the mix)
--   --set verified=40 behind them the mix again, verified only
--   --set tasks=32    tasks of the mix, taken in turn
--   --set waits=6     verdicts one after the other, of each candidate that is waited for
--   --set against=eager   leaves torch.compile out, which a new task takes longest for
--   --set pairs=20    A/A verdicts: a program timed against itself, in processes of its own
--   --set target=cuda the same mix on the GPU, and the times of distinct candidates one after the other; no A/A
--   --set kernelbench=DIR, --set cuda_agent=DIR
--                     instead: one candidate in Python through KernelBench's own evaluation, or the released
--                     CUDA-Agent scripts, of a checkout in DIR, and through the judge on the same GPU
--   --set busy=false  with a trainer that steps in this process meanwhile (needs a khost with the trainer)
-- Exit code 1 when more than 1 % of the A/A verdicts (and more than 2) said faster.
local args = require "lib.args"
local fixtures = require "tests.manual.bench.fixtures"
local judge = require "judge.client"
local others = require "tests.manual.bench.others"
local log = require "khost.log"
local mix = require "tests.manual.bench.mix"
local progress = require "khost.progress"
local sched = require "khost.sched"

local OPTIONS = { { name = "--set", kind = "list",
  help = "mix=N, timed=N, verified=N, pairs=N, busy=true, jobs=N, target=cuda, tasks=N, waits=N, against=eager, "
    .. "kernelbench=DIR, cuda_agent=DIR" } }
local ABOUT = { name = "judge", summary = "verdicts an hour, exclusive time, A/A" }
local DEFAULTS = { mix = 40, timed = -1, verified = 0, pairs = 20, busy = false, jobs = 2, target = "cpu", tasks = 32,
  waits = 6, against = "both" }
-- Equal programs are told apart only where they take many slacks, and as surely as the machine lets them run: some
-- milliseconds of arithmetic on what a core's cache holds, since memory is shared with whoever else the machine serves.
local EQUAL, ROWS_OF_EQUALS = "cpu/good/mish_of_a_textbook", 256

local CHECKOUTS = { kernelbench = true, cuda_agent = true }

local function settings(list)
  local chosen = { checkouts = {} }
  for key, value in pairs(DEFAULTS) do
    chosen[key] = value
  end
  for _, text in ipairs(list or {}) do
    local key, value = text:match("^([%w_]+)=(.+)$")
    if not key or (DEFAULTS[key] == nil and not CHECKOUTS[key]) then
      args.misuse(("--set %s: mix=N, pairs=N, busy=true, jobs=N or a checkout expected"):format(text))
    end
    if CHECKOUTS[key] then
      chosen.checkouts[#chosen.checkouts + 1] = { which = key, folder = value }
      goto continue
    end
    chosen[key] = type(DEFAULTS[key]) == "boolean" and value == "true" or tonumber(value)
      or key == "target" and mix.NAMES[value] and value or key == "against" and value == "eager" and value or nil
    if chosen[key] == nil then
      args.misuse(("--set %s: a number expected, or a word that the head of the file names"):format(text))
    end
    ::continue::
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

-- What a verdict on a right candidate spends where, on average: "build 1.2 s, wait 0.4 s".
local function shares(walls, judged)
  local parts = {}
  for _, part in ipairs { "task", "build", "plan", "sets", "start", "verify", "baselines", "time", "beside",
    "brackets", "wait" } do
    if walls[part] then
      parts[#parts + 1] = ("%s %.2f s"):format(part, walls[part] / math.max(1, judged))
    end
  end
  return table.concat(parts, ", ") .. " of a verdict on a right one"
end

local function add_walls(walls, verdict)
  for part, wall in pairs(verdict.wall_s) do
    walls[part] = (walls[part] or 0) + wall
  end
end

-- Verdicts on all bodies, so many at once. Their parts are summed up over those that were judged; `see` sees each.
local function judge_all(process, label, bodies, jobs, see)
  local walls, judged, bar = {}, 0, progress.begin(label, #bodies)
  sched.map(bodies, function(body)
    local verdict = assert(process:request("evaluate", body))
    see(verdict)
    if verdict.status == "void" then
      log.print(("void: %s, %s"):format(verdict.reason or "", verdict.detail or ""))
    end
    if verdict.status == "ok" then
      judged = judged + 1
      add_walls(walls, verdict)
    end
    bar:add(1)
  end, { limit = jobs + 1, on_failure = "raise" })
  bar:finish()
  return walls, judged
end

-- `kind`: "RL mix"; "timed", all of them; or "verified", the mix without any times.
local function mixed(process, count, jobs, tasks, target, kind)
  local bodies = {}
  for i = 1, count do
    bodies[i] = mix.body(i, tasks, target, kind == "timed")
    bodies[i].measure = kind ~= "verified"
  end
  local exclusive, by_status, begin = {}, {}, sched.now()
  local walls, judged = judge_all(process, kind, bodies, jobs, function(verdict)
    by_status[verdict.status] = (by_status[verdict.status] or 0) + 1
    exclusive[#exclusive + 1] = verdict.evidence.exclusive_s
  end)
  local seconds = sched.now() - begin
  log.print(("warm, %d distinct%s over %d tasks   %.2f s a verdict, %.0f verdicts an hour (%s)"):format(count,
    kind == "RL mix" and "" or " " .. kind, #tasks, seconds / count, 3600 * count / seconds, mix.told(by_status)))
  log.print(("where it goes       %s"):format(shares(walls, judged)))
  if kind ~= "verified" then
    log.print(("exclusive lease     median %.0f ms, 90 %% %.0f ms of a timed verdict"):format(
      quantile(exclusive, 0.5) * 1e3, quantile(exclusive, 0.9) * 1e3))
  end
end

-- The first verdict on each task: its sets and its baselines are made for it.
local function opened(process, tasks, jobs)
  local bodies, begin, prepared, alone = {}, sched.now(), {}, 0
  for i, task in ipairs(tasks) do
    bodies[i] = mix.request(task)
  end
  local walls, judged = judge_all(process, "new tasks", bodies, jobs, function(verdict)
    for part, seconds in pairs(verdict.evidence.preparation_s or {}) do
      prepared[part] = (prepared[part] or 0) + seconds
    end
    alone = alone + (verdict.evidence.baselines_alone and 1 or 0)
  end)
  log.print(("new tasks           %.1f s each, %d of %d judged (first verdicts, %d at once)"):format(
    (sched.now() - begin) / #tasks, judged, #tasks, jobs))
  log.print(("where it goes       %s"):format(shares(walls, judged)))
  local parts = {}
  for part, seconds in pairs(prepared) do
    parts[#parts + 1] = ("%s %.2f s"):format(part, seconds / #tasks)
  end
  table.sort(parts)
  log.print(("of it once a task   %s; %d compiled alone"):format(table.concat(parts, ", "), alone))
end

-- One after the other: what one waits from files to verdict.
local function waited(process, count, name)
  local waits, exclusive, walls, judged, took = {}, {}, {}, 0, 0
  for i = 1, count do
    local body, begin = fixtures.request(name, ("wait %d %d"):format(i, sched.now() * 1e6)), sched.now()
    local verdict = assert(process:request("evaluate", body))
    waits[i] = sched.now() - begin
    if verdict.status == "ok" then
      judged, took = judged + 1, took + verdict.times.candidate_s
      exclusive[#exclusive + 1] = verdict.evidence.exclusive_s
      add_walls(walls, verdict)
    end
  end
  log.print(("files to verdict    median %.2f s, 90 %% %.2f s, %d of %d distinct of %s (%.2f ms) in turn"):format(
    quantile(waits, 0.5), quantile(waits, 0.9), judged, count, name, 1e3 * took / math.max(1, judged)))
  log.print(("where it goes       %s; exclusive lease median %.0f ms"):format(shares(walls, judged),
    quantile(exclusive, 0.5) * 1e3))
end

local function equal_programs(process, pairs_wanted)
  local faster, void, decided, ratios, slack, brackets, undecided = 0, 0, 0, {}, 0, 0, {}
  local bar = progress.begin("A/A", pairs_wanted)
  for i = 1, pairs_wanted do
    local body = fixtures.request(EQUAL, ("pair %d %d"):format(i, sched.now() * 1e6))
    body.against = "self"
    fixtures.with_rows(body, ROWS_OF_EQUALS)
    local verdict = assert(process:request("evaluate", body))
    if verdict.status ~= "ok" then
      void = void + 1
    else
      faster = faster + (verdict.faster.self and 1 or 0)
      ratios[#ratios + 1] = verdict.speedup.self
      slack = verdict.slack_s
      local taken = #verdict.evidence.brackets.self
      brackets = brackets + taken
      -- Not where the brackets ended without a decision, nor where nothing may be said.
      if verdict.speed == "measured" and not verdict.evidence.undecided then
        decided = decided + 1
      else
        local why = verdict.speed_reason ~= "" and verdict.speed_reason or "brackets"
        undecided[why] = (undecided[why] or 0) + 1
      end
    end
    bar:add(1, { faster = faster, decided = decided, void = void })
  end
  bar:finish()
  log.print(("A/A, %d verdicts    %d called faster, %d decided, %d not judged; ratio 1 %% %.3f, median %.3f, 99 %% %.3f; "
    .. "%.1f brackets each; slack %.0f us"):format(pairs_wanted, faster, decided, void, quantile(ratios, 0.01),
    quantile(ratios, 0.5), quantile(ratios, 0.99), brackets / math.max(1, #ratios), slack * 1e6))
  for why, count in pairs(undecided) do
    log.print(("undecided           %d: %s"):format(count, why))
  end
  return faster
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local chosen = settings(options.set)
  if #chosen.checkouts > 0 then
    local compared = true
    for _, checkout in ipairs(chosen.checkouts) do
      compared = others.compare(checkout.which, checkout.folder) and compared
    end
    return compared and 0 or 1
  end
  local waits = chosen.waits > 0 and mix.NAMES[chosen.target].waited or {}
  local process, begin = assert(judge.open(nil, { jobs = chosen.jobs })), sched.now()
  local first = assert(process:request("evaluate", fixtures.request(mix.NAMES[chosen.target].waited[1])))
  log.print(("cold                %.1f s from start to the first verdict (%s)"):format(sched.now() - begin,
    first.status))
  for _, name in ipairs(waits) do  -- their baselines
    assert(process:request("evaluate", fixtures.request(name)))
  end
  local tasks = chosen.mix > 0 and mix.tasks(chosen.target, chosen.tasks, chosen.against == "eager" and "eager" or nil)
    or {}
  if #tasks > 0 then
    opened(process, tasks, chosen.jobs)
  end
  local state = { stop = false, steps = 0 }
  local training = chosen.busy and sched.spawn(busy_trainer, state) or nil
  if chosen.mix > 0 then
    for _, name in ipairs(waits) do
      waited(process, chosen.waits, name)
    end
    mixed(process, chosen.timed >= 0 and chosen.timed or chosen.mix, chosen.jobs, tasks, chosen.target, "timed")
    mixed(process, chosen.mix, chosen.jobs, tasks, chosen.target, "RL mix")
  end
  if chosen.verified > 0 and #tasks > 0 then
    mixed(process, chosen.verified, chosen.jobs, tasks, chosen.target, "verified")
  end
  local faster = chosen.target == "cpu" and chosen.pairs > 0 and equal_programs(process, chosen.pairs) or 0
  state.stop = true
  if training then
    training:wait()
    log.print(("trainer             %d steps meanwhile"):format(state.steps))
  end
  process:close()
  return faster <= math.max(2, 0.01 * chosen.pairs) and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
