-- A judge for specs of the pipeline, which needs neither compiler nor card: the spec says what is right, and a hash how
-- fast it is.
local client = require "judge.client"

local hash_judge = {}

--- The verdict on a candidate that is right or not; `number` decides which baselines it beats.
---@param body table     the request
---@param right boolean
---@param number integer
---@return table
function hash_judge.verdict(body, right, number)
  local measured = right and body.measure
  return { status = right and "ok" or "wrong", stage = "verify", reason = right and "" or "values", detail = "",
    correct = right, speed = measured and "measured" or "none", speed_reason = "", slack_s = 0,
    text = right and "Correct" or "Wrong", ok = right,
    times = measured and { candidate_s = 1e-3, eager_s = 2e-3, compile_s = 1.5e-3 } or {},
    speedup = measured and { eager = 2, compile = 1.5 } or {},
    faster = measured and { eager = number % 3 > 0, compile = number % 3 > 1 } or {},
    evidence = { tolerance = "calibrated" }, wall_s = { build = 0.01, verify = 0.01 } }
end

--- A client, and how many requests of each kind it had.
---@param target string
---@param graphs table<string, table>          by source: what the tracer would find
---@param verdict_of fun(body: table): table
---@return table client, table<string, integer> counts
function hash_judge.fake(target, graphs, verdict_of)
  local counts = {}
  local process = { close = function() end }
  function process.request(_, kind, body)
    counts[kind] = (counts[kind] or 0) + 1
    if kind == "trace" then
      return graphs[body.task.source], "unknown task", "bad_task"
    elseif kind == "check" then
      return { structure = { dead_operators = {}, unused_parameters = {}, unused_inputs = {} },
        run = { null_candidates = {}, no_operators = {}, idle_modules = {}, uniform_axes = {}, eager_s = 2e-3 } }
    end
    return verdict_of(body)
  end
  return client.over(process, { target = target, tolerance = "calibrated" }), counts
end

return hash_judge
