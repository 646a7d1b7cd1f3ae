-- `khost compare RUN RUN`: what two runs did differently, and where they ended.

local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local paired = require "evaluation.paired"
local runs = require "run.runs"

local USAGE = "usage: khost compare RUN RUN\n\nPrints the differing keys of both configurations, the last value of "
  .. "every metric, pass and faster rates\nby stage and policy, and the tasks that both evaluated, task by task."

-- Rows of a query as {key = value}.
local function map(run, sql)
  local out = {}
  for _, row in ipairs(assert(run:query(sql))) do
    out[row.key] = row.value
  end
  return out
end

local function last_metrics(run)
  return map(run, [[
    SELECT coalesce(stage, '') || '/' || name AS key, value FROM metrics
    WHERE id IN (SELECT max(id) FROM metrics WHERE value IS NOT NULL GROUP BY stage, name)]])
end

local function rates(run)
  local out = {}
  for _, row in ipairs(runs.rates(run)) do
    local name = ("%s, %s: "):format(row.stage, row.policy ~= "" and row.policy or "-")
    out[name .. "pass rate"], out[name .. "faster than compile"] = row.pass_rate, row.faster_compile
  end
  return out
end

local function print_pairs(title, a, b)
  local keys, seen = {}, {}
  for _, side in ipairs { a, b } do
    for key in pairs(side) do
      if not seen[key] then
        seen[key] = true
        keys[#keys + 1] = key
      end
    end
  end
  if #keys == 0 then
    return
  end
  table.sort(keys)
  log.print("\n" .. title)
  for _, key in ipairs(keys) do
    log.print(("  %-48s %14s %14s"):format(key, runs.number(a[key]), runs.number(b[key])))
  end
end

-- Verdicts of the evaluation, by policy; policies of the same name are set against each other, and where each run has
-- one policy only, these.
local function evaluated(run)
  local out, order = {}, {}
  for _, row in ipairs(assert(run:query([[SELECT coalesce(policy, '-') AS policy, task, correct, candidate_s
    FROM verdicts WHERE stage = 'evaluate' AND counts <> 'not_counted' AND task IS NOT NULL ORDER BY id]]))) do
    if not out[row.policy] then
      out[row.policy], order[#order + 1] = {}, row.policy
    end
    table.insert(out[row.policy], row)
  end
  return out, order
end

local function print_pairing(name, p)
  log.print(("  %-24s %d tasks in both, %d solved by both, %d only by the first, %d only by the second"):format(name,
    p.tasks, p.both, p.only_a, p.only_b))
  if p.ratio then
    local interval = p.low and (" (95 %%: %.3f to %.3f)"):format(p.low, p.high) or ""
    log.print(("  %-24s the second's kernels are %.3f times as fast%s; faster by 5 %%: second %d, first %d of %d")
      :format("", p.ratio, interval, p.b_faster, p.a_faster, p.timed))
  end
end

local function print_pairs_of_tasks(a, b)
  local left, left_names = evaluated(a)
  local right, right_names = evaluated(b)
  local lines = {}
  for _, name in ipairs(left_names) do
    if right[name] then
      lines[#lines + 1] = { name, paired.compare(left[name], right[name]) }
    end
  end
  if #lines == 0 and #left_names == 1 and #right_names == 1 then
    lines[1] = { left_names[1] .. " / " .. right_names[1], paired.compare(left[left_names[1]], right[right_names[1]]) }
  end
  if #lines > 0 then
    log.print("\nevaluation, task by task")
    for _, line in ipairs(lines) do
      print_pairing(line[1], line[2])
    end
  end
end

local function run(arguments)
  if arguments[1] == "--help" or arguments[1] == "-h" then
    log.print(USAGE)
    return 0
  end
  if #arguments ~= 2 then
    fs.eprint("compare: two runs expected\n" .. USAGE .. "\n")
    return 2
  end
  local sides = {}
  for index, name in ipairs(arguments) do
    local found, message = runs.open(name)
    if not found then
      fs.eprint("compare: " .. message .. "\n")
      return 2
    end
    sides[index] = found
  end
  local a, b = sides[1], sides[2]
  log.print(("%s (%s) and %s (%s)"):format(a:info().id, a:info().status, b:info().id, b:info().status))
  local differences = config.diff(a:info().config, b:info().config)
  log.print(#differences == 0 and "\nthe configurations are the same" or "\nconfiguration")
  for _, d in ipairs(differences) do
    log.print(("  %-48s %14s %14s"):format(d.name, d.from == nil and "-" or json.encode(d.from),
      d.to == nil and "-" or json.encode(d.to)))
  end
  print_pairs("verdicts", rates(a), rates(b))
  print_pairs_of_tasks(a, b)
  print_pairs("metrics, last value", last_metrics(a), last_metrics(b))
  return 0
end

return {
  name = "compare",
  summary = "what two runs did differently, and where they ended",
  run = run,
}
