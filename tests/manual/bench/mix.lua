-- The candidates by which the judge's rates are measured: an RL mix, of which three in ten do not build, three are wrong
-- and four are timed, or timed ones alone. Each has a text of its own. For judge.lua and http.lua.
local fixtures = require "tests.manual.bench.fixtures"
local sched = require "khost.sched"

local mix = {}

--- The candidates of each target, names as in `fixtures`.
mix.NAMES = {
  cpu = { good = fixtures.names "cpu/good", wrong = "cpu/wrong/off_by_one", waited = { "cpu/good/row_softmax" } },
  -- What is wrong is so for the tasks of `spoiled`. Two that move memory, a product of 1 ms that is slower than its
  -- baselines, and one that calls cuBLAS as they do.
  cuda = { good = { "cuda/good/plain", "cuda/good/row_energy", "cuda/good/linear_tiled", "cuda/good/linear_large" },
    wrong = "cuda/wrong/half_output", spoiled = "cuda/good/plain",
    waited = { "cuda/good/linear_tiled", "cuda/good/linear_large" } },
}

-- How many rows the inputs of a task have at most; each of its variants has another part of them.
local ROWS = { ["cuda/good/plain"] = 4096, ["cuda/good/row_energy"] = 8192, ["cuda/good/linear_tiled"] = 2048,
  ["cuda/good/linear_large"] = 3072 }

---@class (exact) MixTask
---@field name string        a fixture
---@field against? string    baselines, as a request has them
---@field rows? integer      of its first input, where it is not the fixture's own

--- So many tasks. Target cuda: each fixture's with several numbers of rows. On the CPU the fixtures' own, at most all.
---@param target "cpu"|"cuda"
---@param count integer
---@param against? string
---@return MixTask[]
function mix.tasks(target, count, against)
  local names, tasks = mix.NAMES[target].good, {}
  for i = 1, target == "cuda" and count or math.min(count, #names) do
    local name = names[(i - 1) % #names + 1]
    tasks[i] = { name = name, against = against }
    if target == "cuda" then
      local variants, which = math.ceil(count / #names), math.floor((i - 1) / #names) + 1
      tasks[i].rows = math.max(16, math.floor(ROWS[name] * which / variants / 16) * 16)
    end
  end
  return tasks
end

--- The body of a request for a candidate of a task.
---@param task MixTask
---@param mark? string   a text of its own
---@param name? string   the candidate; that of the task when absent
---@return table
function mix.request(task, mark, name)
  local body = fixtures.request(name or task.name, mark)
  body.against = task.against
  return task.rows and fixtures.with_rows(body, task.rows) or body
end

--- The i-th of the mix, or of timed ones alone.
---@param i integer
---@param tasks MixTask[]
---@param target "cpu"|"cuda"
---@param timed_only? boolean
---@return table
function mix.body(i, tasks, target, timed_only)
  local names = mix.NAMES[target]
  local place = timed_only and 9 or i % 10
  local fails, mark = place >= 3 and place < 6, ("mix %d %d"):format(i, sched.now() * 1e6)
  local among = tasks
  if fails then
    among = {}
    for _, task in ipairs(tasks) do
      among[#among + 1] = task.name == names.spoiled and task or nil
    end
  end
  local body = mix.request(among[i % math.max(1, #among) + 1] or {}, mark, fails and names.wrong or nil)
  if place < 3 then
    for path, text in pairs(body.files) do
      body.files[path] = path:find("^kernels/") and text .. "int broken(" or text
    end
  end
  return body
end

--- "3 build_failed, 4 ok", for people.
---@param by_status table<string, integer>
---@return string
function mix.told(by_status)
  local parts = {}
  for status, number in pairs(by_status) do
    parts[#parts + 1] = ("%d %s"):format(number, status)
  end
  table.sort(parts)
  return table.concat(parts, ", ")
end

return mix
