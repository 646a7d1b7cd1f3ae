-- agent.episode: one player for training and tools; what ends through us is void and played again.
local client = require "judge.client"
local episode = require "agent.episode"
local expert = require "policies.expert"
local expert_cuda = require "policies.expert_cuda"
local experts = require "policies.experts"
local fs = require "khost.fs"
local formats = require "chat.formats"
local live = require "run.live"
local named = require "policies.named"
local reward = require "run.reward"
local sched = require "khost.sched"
local script = require "policies.script"
local store = require "khost.store"
local t = require "tests.lua.harness"
local template = require "run.template"
local tiny = require "chat.tiny"
local tools = require "agent.tools"
local verdicts = require "judge.verdict"

local GRAPH = { inputs = { { name = "x", kind = "input", size = { 4, 8 }, dtype = "float32" } },
  nodes = { { name = "t1", op = "relu", inputs = { "x" }, attributes = {}, size = { 4, 8 }, dtype = "float32" } },
  output = { "t1" } }
local TASK = { id = "t", name = "relu", source = "class Model: pass\n", graph = GRAPH, timed = true }
local BLOCK = "```cpp kernels/%s\n%s\n```\n"

-- A judge for which the first verdicts are those of the list, and then all is right.
local function judge_of(list)
  local self = { asked = {} }
  function self:verdict(_, files)
    self.asked[#self.asked + 1] = files
    local verdict = table.remove(list or {}, 1) or { status = "ok", stage = "verify", reason = "",
      detail = "", times = {}, speedup = {}, faster = {}, evidence = {}, wall_s = {} }
    verdict.evidence.tolerance = "calibrated"
    return verdict
  end
  function self:feedback(_, _, files)
    local verdict = self:verdict(nil, files)
    verdict.text, verdict.ok = "seen", verdicts.passed(verdict)
    return verdict
  end
  return self
end

local function with_run(fn)
  local root = "/tmp/khost-episode-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local run = assert(store.create(root, { name = "x" }))
  local ok, message = pcall(fn, run)
  run:close()
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

local function setting_of(run, policy, judge, more)
  local setting = { judge = judge, store = run, reward = assert(reward.open("rewards.milestone", run)), seed = 1,
    target = "cpu", policy = policy, stage = "single_turn", step = 1, turns = 1, answer_tokens = 100, measure = false,
    reuse = true, pick = "final" }
  for name, value in pairs(more or {}) do setting[name] = value end
  return setting
end

-- Says one answer after the other, in every episode.
local function says(answers)
  return script.open("said", function(_, said)
    local count = 1
    for _, message in ipairs(said) do count = count + (message.role == "assistant" and 1 or 0) end
    return answers[count]
  end)
end

local spec = {}

function spec.all_files_of_a_candidate_are_stored()
  with_run(function(run)
    local answer = BLOCK:format("a.cpp", "int a;") .. BLOCK:format("b.h", "int b;")
    local record = episode.kept(setting_of(run, says { answer }, judge_of()), TASK, 1)
    local files = run:get("trajectories", record.id).verdict.files
    t.expect({ files["kernels/a.cpp"], files["kernels/b.h"] }, { "int a;\n", "int b;\n" })
    t.is_true(files["kernels/fast.h"] and not files["kernels/k.cpp"])
    t.expect(record.reward, 1)
  end)
end

function spec.the_reason_of_an_unreadable_answer_is_the_first()
  with_run(function(run)
    local policy = says { "no block", "```cpp\nint a;\n```\n", "no block", "done\n" }
    for _ = 1, 5 do
      local record = episode.play(setting_of(run, policy, judge_of(), { turns = 9 }), TASK, 1)
      t.expect({ record.verdict.status, record.verdict.reason, record.verdict.detail, record.reward },
        { "build_failed", "unparsable", "no_block, no_path", -1 })
    end
  end)
end

-- A version of the agent loop that adds a label to what the real one plays, or does something else.
local function write_loop(path, body)
  assert(fs.write(path, ([[local loop = require "agent.loop"
return { run = function(options, task, stream) %s end }]]):format(body)))
end

local function labelled(label)
  return ("local ended = loop.run(options, task, stream) ended.labels.%s = 1 return ended"):format(label)
end

function spec.the_agent_loop_may_change_between_steps_and_may_break()
  local path = ("/tmp/khost-episode-loop-%s.lua"):format(fs.sha256(tostring(sched.wall_clock())):sub(1, 12))
  write_loop(path, labelled "first")
  with_run(function(run)
    local script_of_loop = assert(live.open("loop", path, run, live.has_function "run"))
    local setting = setting_of(run, says { BLOCK:format("k.cpp", "int a;") }, judge_of(), { loop = script_of_loop })
    local function labels(step)
      script_of_loop:at_step("spec", step)
      local record = episode.play_until_counted(setting, TASK, step)
      t.expect(record.reward, 1)
      return record.labels
    end
    t.expect(labels(1), { first = 1 })
    write_loop(path, labelled "second")
    t.expect(episode.play(setting, TASK, 9).labels, { first = 1 })  -- not before the next step
    t.expect(labels(2), { second = 1 })
    assert(fs.write(path, "return {}"))
    t.expect(labels(3), { second = 1 })
    write_loop(path, "return options.no.such")
    t.expect(labels(4), { second = 1 })
    write_loop(path, labelled "third")
    t.expect(labels(5), { third = 1 })
    local events = {}
    for _, event in run:each("events") do events[#events + 1] = event.event end
    t.expect(events, { "loop_changed", "loop_refused", "loop_changed", "loop_failed", "loop_changed" })
  end)
  fs.remove_tree(path)
end

function spec.an_episode_that_failed_through_us_is_void_and_played_again()
  with_run(function(run)
    local begun = 0
    local policy = says { BLOCK:format("k.cpp", "int a;") }
    local begin = policy.begin
    policy.begin = function(...)
      begun = begun + 1
      local conversation = begin(...)
      if begun <= 2 then
        conversation.draw = function() return nil, "out of memory", "host" end
      end
      return conversation
    end
    local setting = setting_of(run, policy, judge_of())
    local record = episode.play(setting, TASK, 1)
    t.expect({ record.status, record.verdict.status, record.verdict.reason, record.reward },
      { "env_error", "void", "env_error", nil })
    t.is_true(record.void ~= nil)
    t.expect({ episode.kept(setting, TASK, 1).reward, begun }, { 1, 3 })
    -- With a bound.
    begun = -10
    local last = episode.kept(setting, TASK, 2)
    t.expect({ last.reward, begun }, { nil, episode.TRIES - 10 })
    -- A resumed run plays again what failed, and only that.
    begun = 5
    local known = run:trajectories("single_turn", 1)
    t.expect({ episode.kept(setting, TASK, 2, known).reward, begun }, { 1, 6 })
    t.expect({ episode.kept(setting, TASK, 1, known).reward, begun }, { 1, 6 })
    known = run:trajectories("single_turn", 1)
    t.expect({ episode.kept(setting, TASK, 2, known).reward, begun }, { 1, 6 })
  end)
end

function spec.what_has_no_verdict_is_never_a_failure_of_the_policy()
  with_run(function(run)
    local policy = says { BLOCK:format("k.cpp", "int a;") }
    for _, blank in ipairs { { "void", "task", "judge_lost" }, { "bad_task", "task", "bad_task" },
      { "uninformative", "task", "uninformative" } } do
      local ok, verdict = pcall(verdicts.blank, blank[1], blank[2], blank[3])
      if ok then
        local record = episode.play(setting_of(run, policy, judge_of { verdict }), TASK, 1)
        t.expect({ record.reward, record.verdict.status }, { nil, blank[1] })
      end
    end
  end)
end

function spec.an_agent_that_was_told_nothing_about_its_candidate_is_void()
  with_run(function(run)
    local policy = says { BLOCK:format("k.cpp", "int a;"), "done\n" }
    local judge = judge_of { verdicts.blank("void", "verify", "judge_lost") }
    local record = episode.play(setting_of(run, policy, judge, { turns = 3 }), TASK, 1)
    t.expect({ record.status, record.verdict.status, record.reward }, { "final_answer", "void", nil })
    -- A search takes what stood there all the same.
    judge = judge_of { verdicts.blank("void", "verify", "judge_lost") }
    record = episode.play(setting_of(run, policy, judge, { turns = 3, salvage = true }), TASK, 1)
    t.expect({ record.verdict.status, record.reward }, { "ok", 1 })
  end)
end

function spec.training_plays_with_tools_where_the_format_calls_them()
  with_run(function(run)
    local policy = assert(named.open("expert", { toolset = tools.load() }))
    local record = episode.play(setting_of(run, policy, judge_of(), { turns = 2, pick = "final" }), TASK, 1)
    t.expect({ record.turns[1].calls[1].name, record.reward, record.head }, { "Write", 1, nil })
    t.is_true(record.verdict.files["kernels/k.cpp"] ~= nil)
    record = episode.play(setting_of(run, policy, judge_of(), { turns = 2, pick = "best", whole = true }), TASK, 1)
    t.is_true(record.head.skill == "cpp-kernel" and record.start["kernels/fast.h"] and #record.prompt == 2)
  end)
end

function spec.a_command_gets_the_seconds_of_the_configuration()
  with_run(function(run)
    local policy = script.open("sleeper", function(_, said)
      return #said == 0 and "```bash\nsleep 20\n```" or nil
    end, require "chat.bash")
    local record = episode.play(setting_of(run, policy, judge_of(), { turns = 1, limits = { memory_mb = 512,
      processes = 32, tmp_mb = 16, command_s = 0.3 } }), TASK, 1)
    local seen = record.turns[1].observation
    t.is_true(seen:find("killed after the timeout of 0.3 s", 1, true), seen)
  end)
end

function spec.skill_files_and_expert_follow_the_target()
  t.expect({ template.skill "cpu", template.skill "cuda" }, { "cpp-kernel", "cuda-kernel" })
  t.raises("cpu or cuda expected", template.skill, "gpu")
  t.is_true(template.with({}, "cpp-kernel")["kernels/fast.h"] and not next(template.with({}, "cuda-kernel")))
  t.is_true(experts.of "cpu" == expert and experts.of "cuda" == expert_cuda)
  t.is_true(experts.has("cuda", "vector") and not experts.has("cpu", "vector"))
  with_run(function(run)
    local policy = script.expert(nil, "cuda")
    local judge = judge_of()
    local task = { id = "t", name = "relu", source = "class Model: pass\n", graph = GRAPH }
    local record = episode.play(setting_of(run, policy, judge, { target = "cuda" }), task, 1)
    t.is_true(record.verdict.files["kernels/k.cu"] and not record.verdict.files["kernels/fast.h"])
  end)
end

function spec.the_chat_format_is_what_the_tokenizer_speaks()
  local function engine(word) return { special = function(_, text) return text == word and 7 or nil end } end
  t.is_true(formats.of(engine "<|task|>") == tiny)
  t.is_true(formats.of(engine "<|im_start|>") == require "chat.hermes")
  t.is_true(formats.named "morse" == nil and formats.named "xml" ~= nil)
  t.is_true(tiny.answers_are_files and not require("chat.hermes").answers_are_files)
end

function spec.nothing_handed_in_needs_no_judge()
  with_run(function(run)
    local judge = judge_of()
    local record = episode.play(setting_of(run, says { "done\n" }, judge, { turns = 2 }), TASK, 1)
    t.expect({ record.verdict.reason, #judge.asked, record.verdict.files }, { "no_files", 0, nil })
    t.expect(client.nothing().reason, "no_files")
  end)
end

return spec
