-- khost.profiler: what scripts get of a profile, and what is said when there is no kernel table.
-- The judge is a table that answers as khost-judge does.
local profiler = require "khost.profiler"
local t = require "tests.lua.harness"

local spec = {}

local function answer_with(profile)
  return { kind = "profile", ok = true, status = "ok", reason = "", detail = "", text = "times\n",
    times = { candidate_s = 1e-4 }, speedup = { eager = 2 }, profile = profile }
end

local function judge_with(answer, message, code)
  local self = { asked = {} }
  function self:request(kind, body)
    self.asked[#self.asked + 1] = { kind = kind, body = body }
    return answer, message, code
  end
  return self
end

local REQUEST = { task = { source = "…" }, files = { ["kernels/k.cu"] = "" }, target = "cuda" }

function spec.a_profile_of_a_gpu_gives_tables_rates_and_ceilings()
  local sides = { candidate = { launches = 1, kernels = { { name = "scale", seconds = 9e-5 } } } }
  local judge = judge_with(answer_with { sides = sides, rates = { candidate = { bandwidth = 2e12 } },
    ceilings = { bandwidth = 3e12 }, counters = { allowed = false, why = "administrators only" },
    work = { bytes = 2e8 } })
  local profile = profiler.measure(judge, REQUEST)
  t.expect(judge.asked[1], { kind = "profile", body = REQUEST })
  t.is_true(profile.available)
  t.expect(profile.why, nil)
  t.expect(profile.sides.candidate.kernels[1].name, "scale")
  t.expect(profile.rates.candidate.bandwidth / profile.ceilings.bandwidth, 2 / 3)
  t.expect(profile.counters.allowed, false)
  t.expect(profile.times.candidate_s, 1e-4)
end

function spec.without_a_kernel_table_the_reason_is_said()
  local failed = judge_with(answer_with { sides = { candidate = { unavailable = "CUPTI does not load" } } })
  local profile = profiler.measure(failed, REQUEST)
  t.expect(profile.available, false)
  t.expect(profile.why, "CUPTI does not load")
  t.expect(profiler.measure(judge_with(answer_with(nil)), REQUEST).why, "this judge gave no kernel table")
  local wrong = answer_with(nil)
  wrong.ok, wrong.status = false, "wrong"
  profile = profiler.measure(judge_with(wrong), REQUEST)
  t.expect(profile.status, "wrong")
  t.expect(profile.why, "only a correct candidate is profiled")
  wrong.status, wrong.detail = "void", "there is no NVIDIA driver"
  t.expect(profiler.measure(judge_with(wrong), REQUEST).why, "there is no NVIDIA driver")
end

function spec.on_the_cpu_there_are_times_and_no_table()
  local profile = profiler.measure(judge_with(answer_with(nil)), { task = REQUEST.task, files = REQUEST.files })
  t.expect(profile.target, "cpu")
  t.expect(profile.available, false)
  t.is_true(profile.why:find("CPU target", 1, true) ~= nil)
  t.expect(profile.times.candidate_s, 1e-4)
  t.expect(profile.sides, {})
end

function spec.misuse_raises_and_a_failure_is_passed_on()
  t.raises("unknown key 'taks'", function() profiler.measure(judge_with(nil), { taks = {} }) end)
  t.raises("cpu or cuda expected", function() profiler.measure(judge_with(nil), { target = "tpu" }) end)
  local profile, message, code = profiler.measure(judge_with(nil, "the judge died", "gone"), REQUEST)
  t.expect({ profile, message, code }, { nil, "the judge died", "gone" })
end

return spec
