-- agent.search: what a search keeps, judges and takes up again; real workspaces and shells, verdicts by rule.
local fs = require "khost.fs"
local client = require "judge.client"
local named = require "policies.named"
local openai = require "chat.openai"
local sched = require "khost.sched"
local search = require "agent.search"
local store = require "khost.store"
local t = require "tests.lua.harness"
local tools = require "agent.tools"
local tune = require "agent.tune"

local GRAPH = { inputs = { { name = "x", kind = "input", size = { 4, 8 }, dtype = "float32" } },
  nodes = { { name = "t1", op = "relu", inputs = { "x" }, attributes = {}, size = { 4, 8 }, dtype = "float32" } },
  output = { "t1" } }

-- A judge that finds a kernel as fast as the number behind "speed" in it says; "wrong" in it is wrong.
local function judge_by_rule()
  local self = { asked = {}, seen = {} }
  local function facts(files)
    local text = files["kernels/k.cpp"] or ""
    local speed = tonumber(text:match("speed ([%d.]+)")) or 1
    local correct = text ~= "" and not text:find("wrong", 1, true)
    return { status = correct and "ok" or "wrong", stage = correct and "time" or "verify",
      reason = correct and "" or "mismatch", detail = "", correct = correct,
      times = { candidate_s = 1e-3 / speed, eager_s = 1e-3, compile_s = 1e-3 },
      speedup = { eager = speed, compile = speed },
      faster = { eager = speed > 1.05, compile = speed > 1.05 }, evidence = {}, wall_s = {} }
  end
  function self:verdict(_, files)
    self.asked[#self.asked + 1] = client.artefact(files)
    return facts(files)
  end
  function self:feedback(kind, _, files)
    local answer = facts(files)
    self.seen[#self.seen + 1] = kind
    answer.text, answer.ok = kind .. (answer.correct and ": right" or ": wrong"), answer.correct
    return answer
  end
  return self
end

-- A policy whose episodes write these kernels, each with a verification.
local function writes(episodes)
  local begun = 0
  return { name = "writer", format = openai, begin = function()
    begun = begun + 1
    local kernels, turn = episodes[begun] or { "end" }, 0
    return { draw = function()
      turn = turn + 1
      local kernel = kernels[turn]
      if kernel == "broken" then return nil, "the server is gone", "endpoint" end
      return { text = "turn", cut = false, tokens = 0, calls = kernel and kernel ~= "end" and {
        { id = "w" .. turn, name = "Write", arguments = { file_path = "/workspace/kernels/k.cpp",
          content = kernel .. "\n" } },
        { id = "b" .. turn, name = "Bash", arguments = { command = "python3 -m utils.verification" } } } or nil }
    end, observe = function() return true end, record = function() return {} end }
  end, begun = function() return begun end }
end

local function with_run(fn)
  local root = "/tmp/khost-search-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local run = assert(store.create(root, { name = "x" }))
  local ok, message = pcall(fn, run, root)
  run:close()
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

local function options_of(run, policy, judge, more)
  local options = { run = run, judge = judge, policy = policy, seconds = 60, turns = 10, seed = 1, say = function() end,
    task = { id = "t", name = "relu", source = "class Model: pass\n", graph = GRAPH }, target = "cpu" }
  for name, value in pairs(more or {}) do options[name] = value end
  return options
end

local spec = {}

function spec.the_fastest_correct_state_of_all_episodes_wins()
  with_run(function(run)
    local judge = judge_by_rule()
    local policy = writes { { "// speed 1.5", "// speed 3", "// speed 9 wrong" }, { "// speed 2" } }
    local best, episodes = search.run(options_of(run, policy, judge, { episodes = 2 }))
    t.expect({ episodes, best.verdict.speedup.eager, best.trajectory }, { 2, 3, 1 })
    t.expect(best.files["kernels/k.cpp"], "// speed 3\n")
    t.is_true(best.files["kernels/.gitkeep"] == nil and best.start["kernels/fast.h"] ~= nil)
    -- What was verified as wrong for the agent is not judged at all.
    t.expect(#judge.asked, 3)
    local stored = run:get("trajectories", 1)
    t.is_true(stored.turns[2].calls[2].observation:find("verify: right", 1, true), stored.turns[2].calls[2].observation)
    t.is_true(stored.turns[3].calls[2].observation:find("verify: wrong", 1, true))
    t.expect({ stored.turns[2].verified, stored.turns[3].verified }, { true, false })
    t.expect({ stored.head.skill, stored.head.seed, #stored.head.tools_hash, #stored.turns[1].workspace },
      { "cpp-kernel", 1, 64, 64 })
    t.expect({ stored.verdict.correct, stored.status, stored.turns[1].changes["kernels/k.cpp"] }, { true,
      "final_answer", "// speed 1.5\n" })
  end)
end

function spec.a_search_goes_on_where_it_was()
  with_run(function(run)
    local first = search.run(options_of(run, writes { { "// speed 4" } }, judge_by_rule(), { episodes = 1 }))
    t.expect(first.verdict.speedup.eager, 4)
    local policy = writes { { "// speed 2" } }
    local best, episodes = search.run(options_of(run, policy, judge_by_rule(), { episodes = 2 }))
    t.expect({ episodes, policy.begun(), best.verdict.speedup.eager, best.trajectory }, { 2, 1, 4, 1 })
    t.expect(best.files["kernels/k.cpp"], "// speed 4\n")
    local again = writes {}
    search.run(options_of(run, again, judge_by_rule(), { episodes = 2 }))
    t.expect(again.begun(), 0)
  end)
end

function spec.nothing_correct_gives_nothing()
  with_run(function(run)
    local best, episodes = search.run(options_of(run, writes { { "// wrong" }, { "end" } }, judge_by_rule(),
      { episodes = 2 }))
    t.expect({ best, episodes }, { nil, 2 })
    t.expect(run:get("trajectories", 1).verdict.status, "wrong")
  end)
end

function spec.a_policy_that_fails_ends_the_search_with_its_words()
  with_run(function(run)
    local best, episodes, trouble = search.run(options_of(run, writes { { "// speed 2", "broken" }, { "// speed 3" } },
      judge_by_rule()))
    t.expect({ episodes, trouble, best.verdict.speedup.eager }, { 1, "the server is gone", 2 })
  end)
end

function spec.time_ends_a_search()
  with_run(function(run)
    local policy = writes {}
    local begin = sched.now()
    search.run(options_of(run, policy, judge_by_rule(), { seconds = 0.5 }))
    t.is_true(sched.now() - begin < 20)
    t.is_true(policy.begun() >= 1)
  end)
end

function spec.the_expert_writes_all_its_variants_with_tools()
  with_run(function(run)
    local judge = judge_by_rule()
    local policy = assert(named.open("expert", { toolset = tools.load() }))
    local best = search.run(options_of(run, policy, judge))
    local stored = run:get("trajectories", best.trajectory)
    t.expect({ stored.status, #stored.turns, stored.policy }, { "final_answer", 5, "expert" })
    t.is_true(best.files["kernels/k.cpp"]:find("KHOST_EXPORT(k)", 1, true))
    t.expect(judge.seen[2], "profile")
    t.expect(search.run(options_of(run, policy, judge)).trajectory, best.trajectory)
  end)
end

function spec.a_constant_is_swept_on_visible_inputs()
  local seen = {}
  local function profile(files)
    local value = tonumber(files["kernels/k.cpp"]:match("BLOCK = (%-?%d+);"))
    seen[#seen + 1] = value
    if value == 8 then return { correct = false, status = "wrong", reason = "mismatch" } end
    return { correct = true, status = "ok", times = { candidate_s = 1e-3 / value } }
  end
  local files = { ["kernels/k.cpp"] = "constexpr int BLOCK = 4;\nint BLOCKS;\n", ["model_new.py"] = "" }
  local answer = tune.answer({ name = "BLOCK", values = { 1, 2, 8, 4 } }, files, profile)
  t.expect(seen, { 1, 2, 8, 4 })
  t.expect(answer, { ok = true,
    text = "BLOCK = 1      1.0000 ms\nBLOCK = 2      0.5000 ms\nBLOCK = 8      wrong mismatch\n"
    .. "BLOCK = 4      0.2500 ms\nfastest: BLOCK = 4; kernels/k.cpp still says 4" })
  for _, request in ipairs { {}, { name = "BLOCK" }, { name = "B[", values = { 1 } }, { name = "BLOCK",
    values = { 1.5 } }, { name = "NONE", values = { 1 } },
    { name = "BLOCK", values = { "1" } } } do
    t.expect(tune.answer(request, files, profile).ok, false)
  end
  files["kernels/l.h"] = "#define BLOCK 3\n"
  t.is_true(tune.answer({ name = "BLOCK", values = { 1 } }, files, profile).text:find("one definition is needed", 1,
    true))
end

function spec.the_programs_of_the_workspace_ask_and_print_the_answers()
  with_run(function(run)
    local kernel = "constexpr int N = 1;  // speed 2"
    local policy = writes { { kernel } }
    local begin = policy.begin
    policy.begin = function()
      local conversation = begin()
      local draw = conversation.draw
      conversation.draw = function()
        local drawn = draw()
        if drawn.calls then drawn.calls[2].arguments.command = "python3 -m utils.tune --arg N=1,2; python3 -m utils.tune --arg N; "
          .. "python3 -m utils.profiling" end
        return drawn
      end
      return conversation
    end
    local best = search.run(options_of(run, policy, judge_by_rule(), { episodes = 1 }))
    local seen = run:get("trajectories", best.trajectory).turns[1].calls[2].observation
    for _, part in ipairs { "N = 1      0.5000 ms", "fastest: N = 1; kernels/k.cpp still says 1",
      "--arg must be NAME=0,1,2", "profile: right" } do
      t.is_true(seen:find(part, 1, true), ("%q is missing in %s"):format(part, seen))
    end
  end)
end

function spec.policies_are_named_on_the_command_line()
  for _, text in ipairs { "x", "endpoint", "endpoint:", "other:y" } do
    local policy, message, code = named.open(text, { toolset = tools.load() })
    t.expect({ policy, code }, { nil, "bad_input" })
    t.is_true(message:find(named.FORMS, 1, true))
  end
  t.expect(select(3, named.open("expert", { toolset = tools.load(), format = "morse" })), "bad_input")
  t.expect(select(3, named.open("endpoint:http://127.0.0.1:1/v1", { toolset = tools.load() })), "endpoint")
end

return spec
