-- Right and timed candidates of a run, judged from scratch by a judge that has seen neither them nor their tasks: what
-- a policy learned to be fast at must be fast for this one too.
--
--   ./khost tests/manual/long/judged_again.lua RUN [--count 30] [--fastest 10] [--stage NAME] [--policy NAME] [--seed 1]
--
-- RUN is a folder. The candidates are those of all stages and of all policies but the experts', or of one of these. Prints
-- a row for each of the randomly drawn ones and of the fastest, then the median of the ratios of both speed-ups (over the
-- faster baseline) and the milestones lost. Exit code 1 when that median is further than 2 % from 1 or a candidate of
-- .5 ms or more lost a milestone.
local args = require "lib.args"
local client = require "judge.client"
local json = require "khost.json"
local log = require "khost.log"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local schemes = require "serve.schemes"
local store = require "khost.store"
local tables = require "evaluation.table"

local OPTIONS = {
  { name = "run", required = true, help = "folder of a run" },
  { name = "--count", kind = "number", default = 30, help = "drawn at random" },
  { name = "--fastest", kind = "number", default = 10, help = "the fastest beside them" },
  { name = "--stage", kind = "text", help = "of which the candidates are; of all without it" },
  { name = "--policy", kind = "text", help = "whose they are; of all but the experts without it" },
  { name = "--seed", kind = "number", default = 1, help = "of the draw" },
  { name = "--jobs", kind = "number", default = 2, help = "verdicts at once" },
}
local ABOUT = { name = "tests/manual/long/judged_again.lua", summary = "candidates of a run, judged from scratch" }
local MOST_OFF, LEAST_S = 0.02, 0.5e-3

-- Each distinct candidate once, its last verdict. The experts' are none that a policy learned to be fast at.
local TIMED = [[SELECT max(v.id) AS id, v.candidate_s AS candidate_s, v.eager_s AS eager_s, v.compile_s AS compile_s,
  v.reward AS reward, v.files AS files, v.policy AS policy, t.source AS source, coalesce(t.name, v.task) AS name
  FROM verdicts v JOIN tasks t ON t.id = v.task
  WHERE iif(?1 = '', 1, v.stage = ?1) AND iif(?2 = '', v.policy NOT LIKE 'expert%', v.policy = ?2)
  AND v.correct = 1 AND v.candidate_s > 0 AND v.eager_s IS NOT NULL
  GROUP BY v.task, v.artefact_hash ORDER BY v.id]]

local function speedup(times)
  return math.min(times.eager_s, times.compile_s or math.huge) / times.candidate_s
end

-- The drawn ones in order, then those of the fastest that were not drawn.
local function chosen_of(rows, options)
  local chosen, taken = {}, {}
  for index, row in ipairs(rows) do row.index, row.speed = index, speedup(row) end
  local drawn = random.stream(("judged again %d"):format(options.seed)):shuffled(rows)
  for i = 1, math.min(options.count, #drawn) do
    chosen[i], taken[drawn[i].index] = drawn[i], true
    drawn[i].drawn = true
  end
  table.sort(rows, function(a, b) return a.speed > b.speed end)
  for i = 1, math.min(options.fastest, #rows) do
    rows[i].fast = true
    if not taken[rows[i].index] then chosen[#chosen + 1] = rows[i] end
  end
  return chosen
end

local function judged(judge, rewards, row)
  local verdict = assert(judge:request("evaluate", { task = { source = row.source, name = row.name },
    files = json.decode(row.files) }))
  local times = verdict.times or {}
  row.said = verdict.status == "ok" and verdict.speed ~= "measured" and verdict.speed or verdict.status
  row.again = times.candidate_s and times.eager_s and speedup(times) or nil
  row.reward_again = rewards:score(assert(rewards:get "milestone"), verdict)
end

local function told(value, form) return value and form:format(value) or "" end

local function print_rows(title, chosen, field)
  local lines, ratios, lost, long_lost = {}, {}, 0, 0
  for _, row in ipairs(chosen) do
    if row[field] then
      -- A void verdict and a speed that stayed unresolved show nothing of it, and `said` tells so.
      local fell = row.said ~= "unresolved" and row.said ~= "void" and (not row.reward_again or row.reward_again < row.reward)
      ratios[#ratios + 1] = row.again and row.again / row.speed or nil
      lost = lost + (fell and 1 or 0)
      long_lost = long_lost + (fell and row.candidate_s >= LEAST_S and 1 or 0)
      lines[#lines + 1] = { row.name, row.policy, ("%.1f"):format(row.candidate_s * 1e6), ("%.2f"):format(row.speed),
        told(row.again, "%.2f"), told(row.again and row.again / row.speed, "%.3f"), told(row.reward, "%g"),
        told(row.reward_again, "%g"), row.said }
    end
  end
  table.sort(ratios)
  local middle = ratios[math.ceil(#ratios / 2)] or 0
  log.print(title)
  log.print(tables.text({ "task", "policy", "us", "speed-up", "again", "ratio", "reward", "again", "status" }, lines))
  log.print(("%d candidates: median ratio %.3f, %d lost a milestone, of them %d of %.1f ms or more"):format(#lines,
    middle, lost, long_lost, LEAST_S * 1e3))
  return middle, long_lost
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local kept, message = store.open(options.run, { read_only = true })
  if not kept then args.misuse(message) end
  local rows = assert(kept:query(TIMED, { options.stage or "", options.policy or "" }))
  local config = json.decode(assert(kept:query "SELECT config FROM runs")[1].config)
  kept:close()
  if #rows == 0 then
    args.misuse(("%s: no right and timed candidate of %s in %s"):format(options.run,
      options.policy and "policy " .. options.policy or "any policy but the experts", options.stage and "stage " .. options.stage or "any stage"))
  end
  local chosen = chosen_of(rows, options)
  local judge = assert(client.open(nil, { jobs = options.jobs, target = config.machine.target }))
  local rewards, bar = assert(schemes.open "milestone"), progress.begin("judged again", #chosen)
  sched.map(chosen, function(row)
    judged(judge, rewards, row)
    bar:add(1)
  end, { limit = options.jobs, on_failure = "raise" })
  bar:finish()
  judge:close()
  local middle, long_lost = print_rows(("%d drawn of %d"):format(math.min(options.count, #rows), #rows), chosen, "drawn")
  print_rows("the fastest", chosen, "fast")
  return math.abs(middle - 1) <= MOST_OFF and long_lost == 0 and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
