-- khost.profiler: kernel tables and rates of a candidate and its baselines, as the judge's profile gives them.
local profiler = ...

local FIELDS = { task = true, files = true, target = true, tolerance = true, threads = true, against = true }
local ON_CPU = "a profile of the CPU target is times, bytes and spread (times, text)"
local NOT_TIMED = "only a correct candidate is profiled"

local function why_not(answer, target)
  if target ~= "cuda" then return ON_CPU end
  if not answer.ok then return answer.status == "void" and answer.detail or NOT_TIMED end
  local candidate = answer.profile and answer.profile.sides.candidate
  return candidate and candidate.unavailable or not candidate and "this judge gave no kernel table" or nil
end

-- One profile: the answer of the judge's "profile", with what is missing said in `why`.
function profiler.measure(judge, request)
  for key in pairs(request) do
    if not FIELDS[key] then error(("profiler.measure: unknown key '%s'"):format(tostring(key)), 2) end
  end
  local target = request.target or "cpu"
  if target ~= "cpu" and target ~= "cuda" then
    error(("profiler.measure: target '%s'; cpu or cuda expected"):format(tostring(target)), 2)
  end
  local answer, message, code = judge:request("profile", request)
  if not answer then return nil, message, code end
  local why = why_not(answer, target)
  local found = answer.profile or {}
  return { target = target, ok = answer.ok, status = answer.status, reason = answer.reason, detail = answer.detail,
    text = answer.text, times = answer.times, speedup = answer.speedup, available = why == nil, why = why,
    sides = found.sides or {}, rates = found.rates or {}, work = found.work, ceilings = found.ceilings,
    counters = found.counters }
end

return profiler
