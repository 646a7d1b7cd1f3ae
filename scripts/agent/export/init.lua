-- Stored trajectories in forms that other programs read: chat completions as JSON lines, mini-swe-agent, SWE-agent,
-- OpenHands. Each can be read back: messages and calls survive, what a form has no place for is lost.

local json = require "khost.json"
local messages = require "agent.export.messages"
local openhands = require "agent.export.openhands"
local tools = require "agent.tools"
local verdicts = require "judge.verdict"

local export = {}

-- mini-swe-agent's and SWE-agent's words for how an episode ended.
local EXIT = { final_answer = "Submitted", turn_limit = "LimitsExceeded", token_limit = "LimitsExceeded",
  time_limit = "TimeExceeded",
  invalid_calls = "RepeatedFormatError", cut = "LimitsExceeded" }
local SWE_EXIT = { final_answer = "submitted", turn_limit = "exit_cost", token_limit = "exit_context",
  time_limit = "exit_total_execution_time",
  invalid_calls = "exit_format", cut = "exit_context" }

-- What only we know, for those who want it: fields that programs ignore.
local function own(trajectory)
  local verdict = trajectory.verdict or {}
  return { id = trajectory.id, task = trajectory.task, name = trajectory.name, policy = trajectory.policy,
    stage = trajectory.stage,
    step = trajectory.step, status = trajectory.status, reward = trajectory.reward, labels = trajectory.labels,
    usage = trajectory.usage, token_ids = trajectory.tokens, mask = trajectory.mask, logprobs = trajectory.logprobs,
    script_hash = trajectory.script_hash, verdict = { status = verdict.status, stage = verdict.stage,
      reason = verdict.reason,
      correct = verdicts.passed(verdict), times = verdict.times, speedup = verdict.speedup } }
end

-- The files in the end, as far as the verdict keeps them.
local function submission(trajectory)
  local files = (trajectory.verdict or {}).files
  return type(files) == "table" and next(files) and json.encode(files) or ""
end

local function model_stats(trajectory)
  local usage = trajectory.usage or {}
  return { instance_cost = usage.cost or 0, api_calls = #(trajectory.turns or {}), tokens_sent = usage.prompt_tokens
    or 0,
    tokens_received = usage.completion_tokens or trajectory.token_count or 0 }
end

local function command_of(call)
  return call.name == "Bash" and call.arguments.command or ("%s %s"):format(call.name, json.encode(call.arguments))
end

local function write_openai(trajectory)
  return json.encode { messages = messages.to_openai(messages.of(trajectory)), tools = tools.load():schemas(),
    khost = own(trajectory) }
end

local function write_mini(trajectory)
  local list = messages.of(trajectory)
  local out = messages.to_openai(list)
  for index, message in ipairs(list) do
    local actions = {}
    for place, call in ipairs(message.calls or {}) do
      actions[place] = { command = command_of(call), tool_call_id = call.id }
    end
    if message.role == "assistant" then
      out[index].extra = { actions = json.list(actions) }
    end
  end
  return json.encode({ trajectory_format = "mini-swe-agent-1.1", messages = out,
    info = { exit_status = EXIT[trajectory.status] or tostring(trajectory.status),
      submission = submission(trajectory), model_stats = model_stats(trajectory), mini_version = "khost",
      config = json.decode("{}") }, khost = own(trajectory) }, true)
end

local function write_swe(trajectory)
  local list = messages.of(trajectory)
  local history, steps = messages.to_openai(list), {}
  local results, turn = {}, 0
  for _, message in ipairs(list) do
    if message.role == "tool" then
      results[message.call_id] = message.content
    end
  end
  for index, message in ipairs(list) do
    history[index].agent = "main"
    if message.role == "assistant" then
      turn = turn + 1
      local seconds = (trajectory.turns[turn] or {}).seconds or 0
      for _, call in ipairs(message.calls or { false }) do
        steps[#steps + 1] = { response = message.content, thought = message.thought or message.content,
          action = call and command_of(call) or "", observation = call and results[call.id] or "",
          execution_time = seconds,
          state = { working_dir = "/workspace" }, query = json.list {}, extra_info = json.decode("{}") }
      end
    end
  end
  return json.encode({ environment = "main", trajectory = json.list(steps), history = history, info = { exit_status =
    SWE_EXIT[trajectory.status] or tostring(trajectory.status), submission = submission(trajectory),
    model_stats = model_stats(trajectory) }, khost = own(trajectory) }, true)
end

local function write_openhands(trajectory)
  return json.encode(openhands.write(messages.of(trajectory), trajectory), true)
end

local function read_openai(text)
  return messages.from_openai(assert(json.decode(text)).messages)
end

local function read_swe(text)
  return messages.from_openai(assert(json.decode(text)).history)
end

local function read_openhands(text)
  return openhands.read(assert(json.decode(text)))
end

-- file: what a trajectory's own file is called; without it all go into one, a line each.
export.FORMATS = {
  ["openai"] = { write = write_openai, read = read_openai },
  ["mini-swe-agent"] = { write = write_mini, read = read_openai, file = "%d.traj.json" },
  ["swe-agent"] = { write = write_swe, read = read_swe, file = "%d.traj" },
  ["openhands"] = { write = write_openhands, read = read_openhands, file = "%d.events.json" },
}
export.NAMES = { "openai", "mini-swe-agent", "swe-agent", "openhands" }

return export
