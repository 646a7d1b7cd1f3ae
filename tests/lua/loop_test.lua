-- agent.loop with scripted agents: how episodes end and what they are labelled with.
local limits = require "agent.limits"
local loop = require "agent.loop"
local random = require "lib.random"
local script = require "policies.script"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local BLOCK = "```cpp kernels/k.cpp\nint %s;\n```\n"

-- An environment that says what the list says, again and again the last.
local function world(words)
  local self = { acted = 0 }
  function self.act()
    self.acted = self.acted + 1
    local word = words[math.min(self.acted, #words)]
    if word == "raise" then error("the environment broke") end
    return { tool = "files", status = word == "ok" and "ok" or "failed", text = word }
  end
  return self
end

local function play(answers, words, options)
  local policy = script.open("scripted", function(_, said)
    local count = 0
    for _, message in ipairs(said) do count = count + (message.role == "assistant" and 1 or 0) end
    return type(answers) == "function" and answers(count + 1, said) or answers[count + 1]
  end)
  local environment = world(words)
  local episode = loop.run({ policy = policy, environment = environment, limits = options }, {}, random.stream(1))
  return episode, environment
end

local spec = {}

function spec.an_answer_without_files_ends_the_episode()
  local episode, environment = play({ BLOCK:format("a"), "done\n" }, { "ok" })
  t.expect({ episode.ending, #episode.turns, environment.acted }, { "final_answer", 2, 1 })
  t.expect(episode.turns[1].observation, "ok")
end

function spec.the_turn_limit_ends_it()
  local episode = play(function(n) return BLOCK:format("a" .. n) end, { "wrong" }, { turns = 3 })
  t.expect({ episode.ending, #episode.turns }, { "turn_limit", 3 })
end

function spec.invalid_answers_in_a_row_end_it()
  local episode = play(function() return "no code" end, { "ok" }, { invalid_calls = 3 })
  t.expect({ episode.ending, #episode.turns, episode.labels.no_block }, { "invalid_calls", 3, 3 })
end

function spec.an_agent_with_nothing_to_say_ran_out_of_tokens()
  local episode = play({ BLOCK:format("a") }, { "wrong" })
  t.expect(episode.ending, "token_limit")
end

function spec.a_broken_environment_is_named()
  local episode = play({ BLOCK:format("a") }, { "raise" })
  t.expect(episode.ending, "env_error")
  t.is_true(episode.error:find("the environment broke", 1, true))
end

function spec.repeats_are_labelled_and_stop_only_when_asked()
  local function same() return BLOCK:format("a") end
  local labelled = play(same, { "wrong" }, { turns = 5 })
  t.expect({ labelled.ending, labelled.labels.repeat_error }, { "turn_limit", 3 })
  local stopped = play(same, { "ok" }, { turns = 9, stop_when_stuck = true })
  t.expect({ stopped.ending, #stopped.turns, stopped.labels.repeat_call }, { "stuck", 4, 1 })
end

function spec.going_back_and_forth_is_labelled()
  local episode = play(function(n) return BLOCK:format(n % 2 == 0 and "a" or "b") end, { "ok" },
    { turns = 8, stop_when_stuck = true })
  t.expect({ episode.ending, episode.labels.ping_pong }, { "stuck", 1 })
end

function spec.polling_is_no_repetition()
  local steps = {}
  for i = 1, 8 do steps[i] = { action = "BashOutput", observation = "", failed = false, polling = true } end
  t.expect(limits.stuck(steps, limits.DEFAULTS), nil)
end

function spec.time_runs_out()
  local episode = play(function(n)
    sched.sleep(0.02)
    return BLOCK:format("a" .. n)
  end, { "wrong" }, { seconds = 0.03 })
  t.expect(episode.ending, "time_limit")
end

function spec.cancelling_is_not_an_ending()
  local task = sched.spawn(function()
    return play(function() sched.sleep(5) return "done\n" end, { "ok" })
  end)
  sched.sleep(0.01)
  task:cancel()
  t.expect(select(3, task:wait()), "cancelled")
end

function spec.unknown_limits_raise()
  t.raises("unknown limit", limits.new, { truns = 3 })
end

return spec
