-- evaluation.metrics: agreement with KernelBench's scoring code and with the paper's own table; evaluation.csv.
local csv = require "evaluation.csv"
local fs = require "khost.fs"
local harness = require "tests.lua.harness"
local json = require "khost.json"
local metrics = require "evaluation.metrics"

local function near(got, expected, what, relative)
  harness.is_true(type(got) == "number"
    and math.abs(got - expected) <= (relative or 1e-9) * math.max(1, math.abs(expected)),
    ("%s: expected %s, got %s"):format(what or "value", tostring(expected), tostring(got)))
end

local function results_of(case)
  local list = {}
  for i = 1, #case.correct do
    list[i] = { task = "t" .. i, correct = case.correct[i],
      times = { candidate_s = case.candidate_s[i], eager_s = case.baseline_s[i] } }
  end
  return list
end

local function task(level, correct, eager_s, own_s)
  return { task = "t", level = level, correct = correct, times = { candidate_s = own_s, eager_s = eager_s,
    compile_s = eager_s } }
end

return {
  figures_agree_with_kernelbench_on_every_invented_table = function()
    local golden = json.decode(assert(fs.read(fs.root() .. "/tests/lua/data/kernelbench_scores.json")))
    harness.expect(#golden.cases, 12)
    for _, case in ipairs(golden.cases) do
      local results = results_of(case)
      -- Without a correct solution KernelBench says 0, we say that there is none.
      near(metrics.geometric_mean(results, "eager") or 0, case.geometric_mean, case.name)
      near(metrics.geometric_mean_of_faster(results, "eager") or 0, case.geometric_mean_of_faster, case.name)
      for index, p in ipairs(golden.thresholds) do
        near(metrics.fast_p(results, "eager", p), case.fast_p[index], ("%s, fast_%g"):format(case.name, p))
      end
    end
  end,

  the_paper_s_overall_rows_follow_from_its_levels = function()
    -- Table 1 of the CUDA Agent paper: pass, faster than eager and compile, speed-up over eager and compile.
    local rows = {
      { { 100, .90, .63, .51, 1.65, 1.25 }, { 100, .74, .40, .16, .68, .50 }, { 50, .42, .12, .02, .60, .40 },
        { .740, .436, .272, .95, .69 } },
      { { 100, 1, .99, .97, 2.48, 1.87 }, { 100, 1, 1, 1, 3.27, 2.80 }, { 50, .94, .94, .90, 1.80, 1.52 },
        { .988, .984, .968, 2.60, 2.11 } },
      { { 100, .96, .88, .72, 2.03, 1.54 }, { 100, .98, .97, .69, 2.24, 1.60 }, { 50, .88, .82, .50, 1.52, 1.10 },
        { .952, .904, .664, 1.99, 1.46 } },
    }
    for _, row in ipairs(rows) do
      local levels, said = {}, row[4]
      for i = 1, 3 do
        local r = row[i]
        levels[i] = { tasks = r[1], pass = r[2], faster = { eager = r[3], compile = r[4] },
          speedup = { eager = r[5], compile = r[6] } }
      end
      local all = metrics.weighted(levels)
      near(all.pass, said[1], "pass", 6e-4)
      near(all.faster.eager, said[2], "faster than eager", 6e-4)
      near(all.faster.compile, said[3], "faster than compile", 6e-4)
      near(all.speedup.eager, said[4], "over eager", 6e-3)
      near(all.speedup.compile, said[5], "over compile", 6e-3)
    end
  end,

  times_that_are_zero_infinite_or_no_numbers_are_refused = function()
    for _, times in ipairs { { 0, 1 }, { 1, 0 }, { 1 / 0, 1 }, { 1, 1 / 0 }, { 0 / 0, 1 }, { -1, 1 } } do
      harness.raises("a positive finite number expected", metrics.geometric_mean,
        { { task = "t", correct = true, times = { eager_s = times[1], candidate_s = times[2] } } }, "eager")
    end
    -- Those of a wrong solution are not looked at.
    harness.expect(metrics.geometric_mean({ { task = "t", correct = false, times = { eager_s = 0, candidate_s = 0 } } },
      "eager"), nil)
  end,

  the_speed_up_that_a_verdict_charged_with_slack_is_the_one_that_counts = function()
    local verdict = { task = "t", correct = true, times = { eager_s = 4, candidate_s = 1 }, speedup = { eager = 3.9 } }
    near(metrics.geometric_mean({ verdict }, "eager"), 3.9)
    verdict.speedup = {}
    near(metrics.geometric_mean({ verdict }, "eager"), 4)
  end,

  nothing_and_one_task_have_figures_too = function()
    local none = metrics.summary {}
    harness.expect({ none.tasks, none.pass.value, none.speedup.eager.value }, { 0, 0, nil })
    local one = metrics.summary { task(1, true, 2, 1) }
    near(one.speedup.eager.value, 2)
    harness.expect(one.speedup.eager.low, nil)
    near(one.pass.value, 1)
    harness.is_true(one.pass.low < 0.3, "one task says little")
  end,

  wilson_gives_the_published_interval = function()
    local low, high = metrics.wilson(8, 10)
    near(low, 0.4901625, "low", 1e-6)
    near(high, 0.9433178, "high", 1e-6)
  end,

  the_interval_of_a_speed_up_is_student_s_over_the_logarithms = function()
    -- Three logarithms 0, 1, 2: mean 1, deviation 1, t(2) = 4.3027.
    local low, high = metrics.interval_of_mean { 1, math.exp(1), math.exp(2) }
    near(math.log(low), 1 - 4.3027 / math.sqrt(3), "low", 1e-4)
    near(math.log(high), 1 + 4.3027 / math.sqrt(3), "high", 1e-4)
    -- t(9) = 2.2622, t(29) = 2.0452.
    for _, case in ipairs { { 10, 2.2622 }, { 30, 2.0452 } } do
      local values = {}
      for i = 1, case[1] do
        values[i] = i % 2 == 0 and 2 or 0.5
      end
      local deviation = math.log(2) * math.sqrt(case[1] / (case[1] - 1))
      near(math.log(select(2, metrics.interval_of_mean(values))), case[2] * deviation / math.sqrt(case[1]),
        case[1] .. " tasks", 1e-3)
    end
    harness.expect({ metrics.interval_of_mean { 2, 2, 2 } }, { 2, 2 })
    harness.expect(metrics.interval_of_mean { 2 }, nil)
  end,

  levels_are_counted_apart_and_together = function()
    local levels, all, weighted = metrics.by_level { task(1, true, 4, 1), task(1, false, 1, 1), task(2, true, 1, 1) }
    harness.expect({ levels[1].level, levels[1].summary.tasks, levels[2].level }, { 1, 2, 2 })
    near(levels[1].summary.pass.value, 0.5)
    near(all.speedup.eager.value, 2)
    near(weighted.pass, 2 / 3)
    near(weighted.speedup.eager, math.exp(2 / 3 * math.log(4)))
  end,

  the_judge_s_word_on_faster_goes_before_the_speed_up = function()
    local slow = { task = "t", correct = true, speedup = { eager = 1.2 }, faster = { eager = false } }
    near(metrics.summary({ slow }).faster.eager.value, 0)
    slow.faster = nil
    near(metrics.summary({ slow }).faster.eager.value, 1)
  end,

  verdicts_that_count_make_rates_of_answers_and_rows_of_table_1 = function()
    local function verdict(status, speedup, faster)
      return { status = status, speed = "measured", speedup = { eager = speedup }, faster = { eager = faster } }
    end
    local list = { verdict("ok", 4, true), verdict("ok", 1, false), verdict("wrong", 9, true), verdict "void",
      verdict "bad_task", verdict "crash" }
    harness.expect({ metrics.pass_rate(list) }, { 0.5, 4 })
    harness.expect({ metrics.pass_rate {} }, { 0, 0 })
    local row = metrics.table1(list)
    harness.expect({ row.tasks, row.pass_rate, row.faster.eager, row.faster.compile }, { 4, 0.5, 0.25, 0 })
    near(row.speedup.eager, 2)
    harness.expect({ metrics.mean { 1, 2, 6 }, metrics.mean {} }, { 3, nil })
  end,

  csv_quotes_what_needs_it_and_leaves_gaps = function()
    harness.expect(csv.text({ "a", "b" }, { { a = 'x "y", z', b = 0.1 }, { b = true } }),
      'a,b\n"x ""y"", z",0.1\n,true\n')
  end,
}
