-- The CUDA target against the workspaces whose verdict is known: `khost tests/manual/bench/judge_cuda.lua`.
-- One judge, warm after the first. Prints a line for each verdict and, last, how many were as they must be;
-- exit code 1 when one was not.
--   --only TEXT     workspaces whose path contains TEXT        --repeat N   each N times (spread of the speed-up)
--   --folder PATH   instead of tests/data/kernels/cuda              --json FILE  all records, one a line
--   --against eager  leaves torch.compile out                  --tolerance NAME  paper, strict or calibrated
-- Repeats differ by a comment, so that each is an artefact of its own; their builds overlap.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "judge.client"
local sched = require "khost.sched"

local OPTIONS = {
  { name = "--only", kind = "text", help = "workspaces whose path contains this" },
  { name = "--repeat", kind = "number", default = 1, help = "verdicts for each workspace" },
  { name = "--folder", kind = "text", default = "tests/data/kernels/cuda", help = "folder of groups of workspaces" },
  { name = "--against", kind = "text", help = "eager leaves torch.compile out" },
  { name = "--tolerance", kind = "text", help = "paper, strict or calibrated (default)" },
  { name = "--json", kind = "text", help = "file for the records" },
}
local ABOUT = { name = "judge_cuda", summary = "verdicts on known CUDA candidates" }

local function files_of(folder, mark)
  local files = {}
  local function walk(path)
    for _, name in ipairs(fs.list(folder .. "/" .. path) or {}) do
      if name:sub(-1) == "/" then
        walk(path .. name)
      else
        files[path .. name] = fs.read(folder .. "/" .. path .. name) .. (mark and ("// %s\n"):format(mark) or "")
      end
    end
  end
  walk("kernels/")
  files["model_new.py"] = fs.read(folder .. "/model_new.py")
  return files
end

local function workspaces(root, only)
  local found = {}
  for _, group in ipairs(fs.list(root) or {}) do
    for _, name in ipairs(group:sub(-1) == "/" and fs.list(root .. "/" .. group) or {}) do
      local path = root .. "/" .. group .. name:gsub("/$", "")
      if fs.exists(path .. "/expected.json") and (not only or path:find(only, 1, true)) then
        found[#found + 1] = { path = path, label = group .. name:gsub("/$", "") }
      end
    end
  end
  return found
end

local function as_expected(expected, verdict)
  local accepted = type(expected.status) == "table" and expected.status or { expected.status }
  local right = false
  for _, status in ipairs(accepted) do right = right or status == verdict.status end
  return right and (not expected.reason or expected.reason == verdict.reason)
end

local function microseconds(seconds) return seconds and ("%9.1f"):format(seconds * 1e6) or "        -" end

local function quantile(values, q)
  local sorted = {}
  for i, value in ipairs(values) do sorted[i] = value end
  table.sort(sorted)
  return sorted[math.min(#sorted, math.floor(q * #sorted) + 1)]
end

local function print_verdict(label, verdict, good)
  local times, wall = verdict.times, verdict.wall_s
  local total = 0
  for _, seconds in pairs(wall) do total = total + seconds end
  print(("%-32s %-12s %-22s us:%s eager%s compile%s  wall %6.2f s (task %.2f build %.2f verify %.2f time %.2f)%s"):format(
    label, verdict.status, verdict.stage .. (verdict.reason ~= "" and ":" .. verdict.reason or ""),
    microseconds(times.candidate_s), microseconds(times.eager_s), microseconds(times.compile_s), total, wall.task or 0,
    wall.build or 0, wall.verify or 0, wall.time or 0, good and "" or "   <- NOT AS EXPECTED"))
  if not good or verdict.status ~= "ok" then print("      " .. verdict.detail:sub(1, 600)) end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local process, unavailable = judge.open(nil, { jobs = 6 })
  if not process then args.misuse(unavailable) end
  local good, all, records = 0, 0, {}
  for _, place in ipairs(workspaces(options.folder, options.only)) do
    local expected = json.decode(fs.read(place.path .. "/expected.json"))
    local times, source = {}, fs.read(place.path .. "/model.py")
    local function judged(number)
      local verdict, why, code = process:request("evaluate", {
        task = { source = source, name = place.label }, target = "cuda", against = options.against,
        files = files_of(place.path, number > 1 and "repeat " .. number), tolerance = options.tolerance,
      })
      all = all + 1
      if not verdict then
        print(("%-32s FAILED %s (%s)"):format(place.label, why, code))
        return
      end
      local right = as_expected(expected, verdict)
      good = good + (right and 1 or 0)
      print_verdict(place.label, verdict, right)
      records[#records + 1] = json.encode { label = place.label, verdict = verdict }
      times[#times + 1] = verdict.times.candidate_s
    end
    judged(1)
    local others = {}
    for number = 2, options["repeat"] do others[#others + 1] = number end
    sched.map(others, judged, { limit = 6 })
    if options.json then fs.write(options.json, table.concat(records, "\n") .. "\n") end
    if #times > 2 then
      print(("%-32s %d verdicts: candidate median %.2f us, p90 - p10 %.2f %%"):format(place.label, #times,
        quantile(times, 0.5) * 1e6, 100 * (quantile(times, 0.9) - quantile(times, 0.1)) / quantile(times, 0.5)))
    end
  end
  process:close()
  print(("%d of %d verdicts as expected"):format(good, all))
  return good == all and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
