-- evaluation.results: records, the best of several samples, tables and files.
local harness = require "tests.lua.harness"
local json = require "khost.json"
local results = require "evaluation.results"

local function verdict(correct, own, eager, more)
  local v = { status = correct and "ok" or "wrong", stage = "verify", reason = correct and "" or "mismatch",
    detail = "d", correct = correct, times = own and { candidate_s = own, eager_s = eager, compile_s = eager } or {},
    speedup = own and { eager = eager / own, compile = eager / own } or {},
    faster = own and { eager = own < eager } or {} }
  for key, value in pairs(more or {}) do
    v[key] = value
  end
  return v
end

local function of(id, level, v, sample, effort)
  return results.of({ id = id, level = level }, sample or 1, v, effort)
end

return {
  the_best_sample_is_correct_first_and_fast_second = function()
    local list = results.best { of("a", 1, verdict(false), 1), of("a", 1, verdict(true, 2, 1), 2),
      of("a", 1, verdict(true, 1, 2), 3), of("b", 1, verdict(false), 1) }
    harness.expect({ #list, list[1].sample, list[2].task }, { 2, 3, "b" })
  end,

  what_is_our_fault_is_counted_apart = function()
    local counted, left_out = results.counted { of("a", 1, verdict(true, 1, 2)),
      of("b", 1, verdict(false, nil, nil, { status = "void" })),
      of("c", 1, verdict(false, nil, nil, { status = "bad_task" })) }
    harness.expect({ #counted, left_out }, { 1, 2 })
  end,

  tables_name_the_rule_set_and_split_at_ten_percent_by_mixed = function()
    local function shared(id, share)
      return of(id, 1, verdict(true, 1, 4, { rules = "mixed", own_share = share }))
    end
    local own = results.tables { { name = "p", results = { of("a", 1, verdict(true, 1, 4)) } } }
    harness.is_true(own[1].title:find("rules own", 1, true), own[1].title)
    harness.expect(#own, 3)
    local mixed = results.tables { { name = "p", results = { shared("a", 0.1), shared("b", 0.9), shared("c", 0.09),
      shared("d", nil), of("e", 1, verdict(false, nil, nil, { rules = "mixed" })) } } }
    harness.is_true(mixed[1].title:find("rules mixed", 1, true), mixed[1].title)
    local counts = {}
    for index, row in ipairs(mixed[4].rows) do
      counts[index] = row[2] .. ": " .. row[3]
    end
    harness.expect(counts, { "10 % or more: 2", "less than 10 %: 1", "not measured: 1" })
    harness.is_true(results.csv(mixed and { shared("a", 0.25) }):find("mixed,0.25", 1, true))
  end,

  table_1_has_a_row_for_each_level_and_the_whole = function()
    local list = results.tables { { name = "p",
      results = { of("a", 1, verdict(true, 1, 4), 1, { tokens = 10, seconds = 2 }),
        of("b", 2, verdict(true, 1, 1), 1, { tokens = 30, seconds = 4 }), of("c", 2, verdict(false)) } } }
    local main = list[1].rows
    harness.expect({ #main, main[1][1], main[2][1], main[3][1] }, { 3, "level 1", "level 2", "overall" })
    harness.is_true(main[3][4]:match("^66%.7 %%"), main[3][4])
    harness.expect(main[1][7], "4.00x")
    -- Weighted by tasks: one of level 1 at 4x, two of level 2 at 1x.
    harness.expect(main[3][7], "1.59x")
    harness.expect(list[2].rows[1], { "p", "eager", "66.7 %", "66.7 %", "66.7 %", "33.3 %", "33.3 %", "33.3 %" })
    harness.expect(list[3].rows[1][5], "0")
  end,

  tokens_and_cost_are_of_a_task_with_all_its_samples = function()
    local v = verdict(true, 0.5, 1)
    local list = { of("a", 1, v, 1, { tokens = 100, cost = 0.25, seconds = 2 }), of("a", 1, v, 2, { tokens = 300,
      cost = 0.75, seconds = 4 }), of("b", 1, verdict(false), 1, { tokens = 200, cost = 0.5, seconds = 6 }) }
    local effort = results.tables({ { name = "p", results = list } })[3]
    harness.expect(effort.columns, { "policy", "tokens a task", "cost a task", "seconds a task", "tasks not counted" })
    harness.expect(effort.rows[1], { "p", "300", "0.7500", "6.0", "0" })
    local free = results.tables({ { name = "p", results = { of("a", 1, v, 1, { tokens = 100, seconds = 2 }) } } })[3]
    harness.expect(free.rows[1], { "p", "100", "-", "2.0", "0" })
    harness.is_true(results.csv(list):find(",100,0.25,,2,", 1, true), results.csv(list))
  end,

  files_hold_absolute_times_and_failures = function()
    local list = { of("a", 1, verdict(true, 0.5, 1)), of("b", nil, verdict(false)) }
    local text = results.csv(list)
    harness.is_true(text:find("\na,1,1,ok,verify,,true,own,,0.5,1,1,2,2,true,,,,,,d\n", 1, true), text)
    harness.is_true(text:find("\nb,,1,wrong,verify,mismatch,false,", 1, true), text)
    local read = json.decode(results.json({ { name = "p", results = list } }, { processor = "x", target = "cpu" }))
    harness.expect(read.policies[1].overall.pass.value, 0.5)
    harness.expect(read.policies[1].results[2].reason, "mismatch")
    harness.expect(read.hardware.processor, "x")
  end,
}
