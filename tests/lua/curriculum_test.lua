-- curriculum: weights by difficulty and recent reward, and drawing by them.
local frontier = require "curriculum.frontier"
local harness = require "tests.lua.harness"
local random = require "lib.random"
local sampler = require "curriculum.sampler"
local uniform = require "curriculum.uniform"

local RANGE = { range = { -1, 3 } }

local function tasks(n)
  local list = {}
  for i = 1, n do
    list[i] = { id = "t" .. i, depth = i }
  end
  return list
end

local function counts(s, draws, key)
  local by_id = {}
  for i = 1, draws do
    local id = s:draw(1, random.stream(key .. i))[1].id
    by_id[id] = (by_id[id] or 0) + 1
  end
  return by_id
end

return {
  a_task_with_twice_the_weight_is_drawn_twice_as_often = function()
    local s = sampler.open({ name = "x", weight = function(task) return task.depth end }, tasks(2), RANGE)
    local by_id = counts(s, 3000, "w")
    harness.is_true(math.abs(by_id.t2 / 3000 - 2 / 3) < 0.03, ("t2 came %d times"):format(by_id.t2))
  end,

  no_task_comes_twice_before_all_came = function()
    local s = sampler.open(uniform, tasks(5), RANGE)
    local drawn, seen = s:draw(10, random.stream "all"), {}
    for index, task in ipairs(drawn) do
      seen[task.id] = (seen[task.id] or 0) + 1
      harness.is_true(seen[task.id] <= math.ceil(index / 5), "too early")
    end
    for _, task in ipairs(tasks(5)) do
      harness.expect(seen[task.id], 2)
    end
  end,

  a_weight_of_zero_is_never_drawn = function()
    local s = sampler.open({ name = "x", weight = function(task) return task.depth == 1 and 0 or 1 end }, tasks(3),
      RANGE)
    for _, task in ipairs(s:draw(20, random.stream "zero")) do
      harness.is_true(task.id ~= "t1", "t1 was drawn")
    end
  end,

  what_is_half_solved_comes_before_what_is_mastered_or_hopeless = function()
    local s = sampler.open(frontier, tasks(3), RANGE)
    for _ = 1, 8 do
      s:record("t1", 3)
      s:record("t2", -1)
    end
    for i = 1, 8 do
      s:record("t3", i % 2 == 0 and 3 or -1)
    end
    local weights = s:weights()
    harness.is_true(weights[3] > 0.9 and weights[1] <= 0.1 and weights[2] <= 0.1, table.concat(weights, " "))
    harness.is_true(weights[1] > 0, "nothing is forgotten")
  end,

  shallow_stacks_come_first_until_they_were_played = function()
    local s = sampler.open(frontier, tasks(3), RANGE)
    local weights = s:weights()
    harness.is_true(weights[1] > weights[2] and weights[2] > weights[3], table.concat(weights, " "))
  end,

  void_episodes_teach_nothing_and_old_rewards_fade = function()
    local s = sampler.open(frontier, tasks(1), RANGE)
    s:record("t1", nil)
    harness.expect(s:state().rewards.t1, nil)
    for _ = 1, 40 do
      s:record("t1", 1)
    end
    harness.expect(#s:state().rewards.t1, 16)
  end,

  a_restored_sampler_gives_the_same_weights = function()
    local a, b = sampler.open(frontier, tasks(2), RANGE), sampler.open(frontier, tasks(2), RANGE)
    a:record("t1", 2)
    b:restore(a:state())
    harness.expect(b:weights(), a:weights())
  end,

  weights_that_are_none_are_errors_that_name_the_task = function()
    for _, bad in ipairs { -1, 0 / 0, 1 / 0, "x" } do
      local s = sampler.open({ name = "x", weight = function() return bad end }, tasks(1), RANGE)
      harness.raises("task t1", s.weights, s)
    end
    harness.raises("a function `weight`", sampler.open, {}, tasks(1), RANGE)
    local none = sampler.open({ name = "x", weight = function() return 0 end }, tasks(1), RANGE)
    harness.raises("no task has a weight above 0", none.draw, none, 1, random.stream "none")
  end,

  a_share_of_timed_tasks_is_kept_in_every_draw = function()
    local mixed = {}
    for index = 1, 20 do
      mixed[index] = { id = "t" .. index, timed = index <= 2 }
    end
    local s = assert(sampler.named("flat", mixed, { range = { -1, 3 } }))
    for index, case in ipairs { { 8, 0.5, 4 }, { 8, 1, 8 }, { 3, 0.5, 2 }, { 8, 0.01, 0 } } do
      local timed = 0
      for _, task in ipairs(s:draw(case[1], random.stream("timed " .. index), case[2])) do
        timed = timed + (task.timed and 1 or 0)
      end
      harness.expect(timed, case[3])
    end
    -- Where all are of one kind the share says nothing.
    local plain = assert(sampler.named("flat", { { id = "a" }, { id = "b" } }, { range = { -1, 3 } }))
    harness.expect(#plain:draw(2, random.stream "plain", 0.5), 2)
  end,
  tasks_without_spread_are_drawn_less = function()
    local s = assert(sampler.named("flat", { { id = "a" }, { id = "b" } }, RANGE))
    s:record_group("a", { 1, 1 })
    harness.expect(s:weights(), { 1, 1 })
    s:record_group("a", { 1, 1 })
    s:record_group("b", { 1, 3 })
    local by_id = counts(s, 1000, "draw")
    harness.is_true(by_id.a > 120 and by_id.a < 280, "a was drawn " .. by_id.a)
    s:record_group("a", { -1, 3 })
    harness.expect(s:weights(), { 1, 1 })
  end,

  an_unknown_script_is_named = function()
    local none, message = sampler.named("no_such", tasks(1), RANGE)
    harness.expect(none, nil)
    harness.is_true(message:find("curriculum no_such", 1, true), message)
  end,
}
