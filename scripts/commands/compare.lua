-- `khost compare RUN RUN`: what two runs did differently, and where they ended.

local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local runs = require "lib.runs"

local USAGE = "usage: khost compare RUN RUN\n\nPrints the differing keys of both configurations, the last value of "
  .. "every metric, and pass and faster rates\nby stage and policy."

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
  return map(run, [[
    SELECT stage || ', ' || coalesce(policy, '-') || ': pass rate' AS key, avg(correct) AS value
    FROM verdicts WHERE status <> 'void' GROUP BY stage, policy
    UNION ALL
    SELECT stage || ', ' || coalesce(policy, '-') || ': faster than compile',
      avg(coalesce(correct * faster_compile, 0))
    FROM verdicts WHERE status <> 'void' GROUP BY stage, policy]])
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
  print_pairs("metrics, last value", last_metrics(a), last_metrics(b))
  return 0
end

return {
  name = "compare",
  summary = "what two runs did differently, and where they ended",
  run = run,
}
