-- A made-up run of any size for tests of the report: stages, curves, kernels, dialogues with tool calls, hostile texts
-- and verdicts that should raise an alarm.
--
--   ./khost tests/manual/long/report_store.lua FOLDER [--trajectories 100000] [--steps 200] [--running]
--   ./khost tests/manual/long/report_store.lua RUN --append 41   a further step of a run that is going on
--   ./khost tests/manual/long/report_store.lua RUN --finish      its end
--
-- Prints the run's folder.
local args = require "lib.args"
local log = require "khost.log"
local random = require "lib.random"
local sched = require "khost.sched"
local store = require "khost.store"

local made = {}

local OPTIONS = {
  { name = "root", required = true, help = "the folder that gets the run, or the run" },
  { name = "--trajectories", kind = "number", default = 100000, help = "of both stages together" },
  { name = "--steps", kind = "number", default = 200, help = "of each stage" },
  { name = "--seed", kind = "number", default = 1, help = "of every draw" },
  { name = "--running", kind = "flag", help = "leave the run as one that is going on" },
  { name = "--append", kind = "number", help = "add a step of this number to the run" },
  { name = "--finish", kind = "flag", help = "end the run" },
}
local ABOUT = { name = "tests/manual/long/report_store.lua", summary = "a made-up run for tests of the report" }

--- Texts that break out of a page which takes them for markup, script or layout. All begin with "hostile".
made.HOSTILE = {
  "hostile </script><script>window.broken = 1</script>",
  "hostile <img src=x onerror='window.broken = 2'><svg/onload=window.broken=3>",
  "hostile <!-- <script> \226\128\174 reversed \226\128\168 line \0 \27[2J",
  "hostile \"' onmouseover=window.broken=4 javascript:window.broken=5 ${window.broken=6} {{7}} &lt;b&gt; &amp;",
  "hostile ]]> <style>* { display: none }</style> <base href='//example.invalid/'> \255\254",
}

local TASKS = { "gelu_scale", "softmax_rows", "layer_norm", "matmul_bias_relu" }
local SOURCE = [[
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x) * 0.5  # the reference


def get_inputs():
    return [torch.randn(1024, 1024)]
]]
local KERNEL = [[
#include "khost.h"
// One thread an element, version %d.
__global__ void scale(const float* x, float* out, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 0.5f * x[i]; }
}
KHOST_EXPORT(scale)
]]
local FAILURES = { { "wrong", "verify", "mismatch" }, { "build_failed", "build", "build" }, { "crash", "verify", "signal" },
  { "timeout", "verify", "call" }, { "violation", "build", "forbidden" } }

local function dialogue(stream, index)
  local text = KERNEL:format(index)
  local turns = { { index = 1, role = "assistant", thought = "The operator is bound by memory, so one pass should do.",
    text = "I write the kernel first.", tool = "Write", status = "ok", seconds = 0.4, token_count = 180,
    calls = { { name = "Write", arguments = { path = "kernels/k.cu", content = text }, status = "ok",
      observation = "wrote kernels/k.cu" } }, changes = { ["kernels/k.cu"] = text } } }
  if stream:number() < 0.7 then
    local better = text:gsub("0.5f", "0.25f")
    turns[2] = { index = 2, role = "assistant", thought = "Verification says that the factor is wrong.", text = "",
      tool = "Edit", status = "ok", seconds = 1.2, token_count = 90, calls = { { name = "Edit", status = "ok",
        arguments = { path = "kernels/k.cu", old = "0.5f", new = "0.25f" }, observation = "replaced 1" },
        { name = "Bash", status = "error", label = "timeout", arguments = { command = "python -m verify --all" },
          observation = "the command did not end in time" } }, changes = { ["kernels/k.cu"] = better } }
  end
  return turns, text
end

local function verdict_of(stream, progress, text)
  if stream:number() < 0.25 + 0.5 * progress then
    local eager = 1e-3
    local own = eager / (0.5 + 2.5 * stream:number() * (0.5 + progress))
    return { status = "ok", stage = "time", reason = "", correct = true, speed = "measured", speed_reason = "",
      times = { candidate_s = own, eager_s = eager, compile_s = eager * 0.8 },
      speedup = { eager = eager / own, compile = 0.8 * eager / own },
      faster = { eager = own < eager / 1.05, compile = own < 0.8 * eager / 1.05 }, files = { ["kernels/k.cu"] = text },
      evidence = { artefact_hash = ("%08x"):format(stream:integer(0, 2 ^ 30)), tolerance = "calibrated" } }
  end
  local failure = FAILURES[stream:integer(1, #FAILURES)]
  return { status = failure[1], stage = failure[2], reason = failure[3], correct = false,
    detail = "output[0, 7] is 0.25, expected 0.5", files = { ["kernels/k.cu"] = text }, evidence = {} }
end

local function reward_of(verdict)
  if verdict.status ~= "ok" then
    return -1
  end
  return 1 + (verdict.faster.eager and 1 or 0) + (verdict.faster.compile and 1 or 0)
end

local function add_trajectory(run, stream, stage, step, index, steps)
  local turns, text = dialogue(stream, index)
  local verdict = verdict_of(stream, step / steps, text)
  local task = stream:integer(1, #TASKS)
  verdict.policy, verdict.task = stage, "task-" .. task
  local reward = reward_of(verdict)
  verdict.reward = reward
  assert(run:append("trajectories", { stage = stage, step = step, index = index, task = "task-" .. task,
    name = TASKS[task], policy = stage, status = "final_answer", reward = reward, reason = verdict.reason,
    turn_count = #turns, token_count = 300, seconds = 2.5, tokens = { 1, 2, 3 }, mask = { 0, 1, 1 }, turns = turns,
    verdict = verdict }))
end

-- Trajectories of one text each in every place where a model, a task or a candidate may write.
local function add_hostile(run, stage, step, first)
  for place, text in ipairs(made.HOSTILE) do
    assert(run:put("tasks", text, { name = text, split = "train", status = "kept", source = text }))
    assert(run:put("tasks", "dropped " .. text, { name = text, status = "dropped", reason = text }))
    assert(run:append("trajectories", { stage = stage, step = step, index = first + place, task = text, name = text,
      policy = text, status = text, reason = text, error = text, reward = -1, turn_count = 1, token_count = 3,
      labels = { [text] = 1 }, prompt = { { role = text, content = text } }, turns = { { index = 1, thought = text,
        text = text .. "\n```cpp " .. text .. "\n" .. text .. "\n```\n", tool = text, status = text, label = text,
        calls = { { name = text, arguments = { [text] = text .. ("\n" .. text):rep(3) }, status = text, label = text,
          observation = text } }, changes = { [text] = text } } }, verdict = { status = "wrong", stage = "verify",
        reason = "mismatch", detail = text, correct = false, files = { [text] = text, ["model_new.py"] = text },
        evidence = { artefact_hash = text } } }))
  end
end

--- Verdicts that a sound judge never gives: unknown words, a reward on nothing, a broken task, its own failure.
---@param run khost.Store
---@param stage string
---@param step integer
function made.add_alarms(run, stage, step)
  for _, verdict in ipairs {
    { status = "splendid", judge_stage = "time", reason = "", correct = true },
    { status = "wrong", judge_stage = "verify", reason = "because", correct = false },
    { status = "wrong", judge_stage = "time", reason = "linkage", correct = false },
    { status = "crash", judge_stage = "verify", reason = "signal", correct = true },
    { status = "void", judge_stage = "verify", reason = "gone", correct = false, reward = -1 },
    { status = "bad_task", judge_stage = "task", reason = "not_finite", correct = false },
    { status = "suspect", judge_stage = "time", reason = "floor", correct = false },
  } do
    verdict.stage, verdict.step, verdict.task, verdict.policy = stage, step, "task-1", stage
    assert(run:append("verdicts", verdict))
  end
end

local function metrics_of(stream, step, steps)
  local progress = step / steps
  local function noisy(value, width)
    return value + width * (stream:number() - 0.5)
  end
  return { reward = noisy(-0.6 + 2.2 * progress, 0.5), pass_rate = noisy(0.2 + 0.55 * progress, 0.15),
    actor_entropy = noisy(0.9 - 0.5 * progress, 0.1), distinct = noisy(0.9 - 0.3 * progress, 0.1),
    coverage = math.floor(4 + 60 * progress), actor_approx_kl = noisy(0.01, 0.008),
    action_length_mean = noisy(420 - 160 * progress, 60), value_loss = noisy(0.8 * math.exp(-3 * progress), 0.05),
    ev_mc = noisy(0.6 * progress, 0.1), rollout_s = noisy(20, 4), update_s = noisy(9, 1),
    ["actor_ratio_std_p_1e-3_1e-1"] = noisy(0.2, 0.05),
    ["actor_ratio_std_p_above_1e-1"] = noisy(0.04, 0.01), ["actor_ratio_std_p_below_1e-3"] = noisy(0.5, 0.1) }
end

--- Makes the run.
---@param root string
---@param o {trajectories: integer, steps: integer, seed?: integer, running?: boolean, hostile?: boolean,
---  alarms?: boolean}
---@return khost.Store
function made.run(root, o)
  local run = assert(store.create(root, { name = "made-up", recipe = "tests", preset = "none", seed = o.seed or 1,
    config = { ppo = { steps = o.steps, actor_lr = 1e-6 * (o.seed or 1) } } }))
  local stream = random.stream(("report store %d"):format(o.seed or 1))
  for index, name in ipairs(TASKS) do
    assert(run:put("tasks", "task-" .. index, { name = name, split = "train", status = "kept", source = SOURCE }))
  end
  run:begin_stage("filter")
  run:finish_stage("filter", {})
  local each = math.max(1, math.floor(o.trajectories / (2 * o.steps)))
  for number, stage in ipairs { "single_turn", "agentic" } do
    run:begin_stage(stage)
    for step = 1, o.steps do
      run:transaction(function()
        for index = 1, each do
          add_trajectory(run, stream, stage, step, index, o.steps)
        end
        assert(run:metrics(stage, step, metrics_of(stream, step, o.steps), "feed"))
      end)
      sched.sleep(0)  -- a script that never waits is stopped
    end
    if number == 2 and o.hostile ~= false then
      add_hostile(run, stage, o.steps, each)
    end
    if number == 2 and o.alarms ~= false then
      made.add_alarms(run, stage, o.steps)
    end
    if number == 1 or not o.running then
      run:finish_stage(stage, { spent = { wall = 9, drawing = 4, update = 3, builds = 2, nothing = 2 },
        tables = { { title = "what it made", columns = { "policy", "reward" }, rows = { { stage, 1.5 } } } } })
    end
  end
  if not o.running then
    run:finish("done")
  end
  return run
end

-- A further step of a run that is going on, or its end.
local function go_on(options)
  local run = assert(store.open(options.root))
  if options.append then
    local stream = random.stream("append " .. options.append)
    add_trajectory(run, stream, "agentic", options.append, 1, options.append)
    assert(run:metrics("agentic", options.append, metrics_of(stream, options.append, options.append)))
  else
    run:finish_stage("agentic", {})
    run:finish("done")
  end
  run:close()
  return 0
end

function made.main(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  if options.append or options.finish then
    return go_on(options)
  end
  local run = made.run(options.root, { trajectories = options.trajectories, steps = options.steps, seed = options.seed,
    running = options.running })
  log.print(run:folder())
  run:close()
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, run = made.main, made = made }
