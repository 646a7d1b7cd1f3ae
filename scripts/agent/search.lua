-- One operator in, the best verified kernel out: episodes of a policy until time is out, each kept with its verdict, so
-- that a search that was stopped goes on where it was.

local environment = require "agent.environment"
local fs = require "khost.fs"
local json = require "khost.json"
local judging = require "evaluation.judging"
local loop = require "agent.loop"
local machine = require "khost.machine"
local prompt = require "agent.prompt"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local tools = require "agent.tools"
local verdicts = require "judge.verdict"

local search = {}

local STAGE = "optimize"
local JUDGED = 3  -- of the states of an episode that its agent found correct, the latest

---@class (exact) SearchOptions
---@field run khost.Store
---@field judge table            evaluation.judging
---@field policy table
---@field task table             {id, name, source, graph?, skill}
---@field seconds number         for all episodes together
---@field turns integer          of an episode
---@field episodes? integer      at most; as many as there is time for when absent
---@field seed integer
---@field say fun(text: string)

-- Faster against both baselines is better; a correct one is better than none.
local function score(verdict)
  if not verdicts.passed(verdict) then
    return -1
  end
  return math.min(verdicts.speedup(verdict, "eager") or math.huge, verdicts.speedup(verdict, "compile") or math.huge,
    1e9)
end

local function better(a, b)
  return not b or score(a.verdict) > score(b.verdict)
end

-- The states that count: distinct, the latest first, and what stands in the end.
local function states_of(world)
  local list, seen = {}, {}
  local function add(files)
    local artefact = files and judging.artefact(files)
    if artefact and not seen[artefact] then
      seen[artefact] = true
      list[#list + 1] = { files = files, artefact = artefact }
    end
  end
  for index = #world.states, 1, -1 do
    if world.states[index].correct ~= false then
      add(world.states[index].files)
    end
  end
  if #list == 0 then
    add(world.candidate())
  end
  return list
end

-- The best of an episode by verdicts of their own: what the agent was shown decides nothing.
local function judged(options, episode, world, judged_before)
  local best
  local states = states_of(world)
  for index = 1, math.min(#states, options.policy.deterministic and #states or JUDGED) do
    local state = states[index]
    local verdict = judged_before[state.artefact] or options.judge:verdict(options.task, state.files,
      { measure = true })
    judged_before[state.artefact] = verdict
    local found = { files = state.files, verdict = verdict }
    best = better(found, best) and found or best
  end
  if best then
    return best
  elseif episode.ending == "env_error" then
    return { verdict = verdicts.blank("void", "task", "env_error", tostring(episode.error or "")), files = {} }
  end
  return { verdict = judging.nothing(episode.labels), files = {} }
end

local function world_of(options, workspace, toolset)
  local task, judge = options.task, options.judge
  if options.policy.answers_are_files then
    return environment.files(workspace, task, judge, { reuse = false, feedback = options.policy.format.feedback })
  end
  return environment.tools(workspace, toolset, { respond = options.policy.format.respond, feedback = function(kind,
    files, how)
    return judge:feedback(kind, task, files, how)
  end })
end

-- What stands in a new workspace, as far as a candidate may have it.
local function visible(files)
  local kept = {}
  for path, text in pairs(files or {}) do
    kept[path] = not path:find("/%.") and text or nil
  end
  return kept
end

local function play(options, index, seconds, judged_before)
  local task, toolset = options.task, tools.load()
  local skill = ("skills/%s"):format(task.skill)
  return sandbox.within(skill .. "/template", function(workspace)
    local start = visible(workspace:snapshot())
    local world = world_of(options, workspace, toolset)
    local stream = random.stream(("%d optimize %d"):format(options.seed, index))
    local episode = loop.run({ policy = options.policy, environment = world, reserve = 64,
      limits = { turns = options.turns, seconds = seconds } },
      { source = task.source, graph = task.graph, toolset = toolset, skill = task.skill, name = task.name }, stream)
    if world.close then
      world.close()
    end
    options.say(("episode %d: %s after %d turns; judging"):format(index, episode.ending, #episode.turns))
    local best = judged(options, episode, world, judged_before)
    best.episode, best.start = episode, start
    return best
  end, { files = { ["model.py"] = task.source,
    ["SKILL.md"] = assert(fs.read(("%s/%s/SKILL.md"):format(fs.root(), skill))) } })
end

-- What a trajectory was made with: tools, skill, seed, machine.
local function head_of(options)
  local facts = machine.facts()
  return { seed = options.seed, model = options.policy.model or options.policy.name, skill = options.task.skill,
    skill_hash = fs.sha256(assert(fs.read(("%s/skills/%s/SKILL.md"):format(fs.root(), options.task.skill)))),
    tools_hash = fs.sha256(json.encode(tools.load():schemas())), turns = options.turns, kernel = facts.kernel,
    machine = facts.machine, cores = facts.cores }
end

local function record_of(options, index, best)
  local episode = best.episode
  local messages = episode.record.messages
  if not messages and not options.policy.answers_are_files then
    messages = {}
    local about = { source = options.task.source, toolset = tools.load(), skill = options.task.skill }
    for at, message in ipairs(prompt.messages(about, options.policy.format.describe)) do
      messages[at] = { role = message.role, content = message.text }
    end
  end
  local verdict = best.verdict
  verdict.files, verdict.policy, verdict.task = best.files, options.policy.name, options.task.id
  local record = episode.record
  return { stage = options.stage or STAGE, step = options.step or 0, index = index,
    task = options.task.id, name = options.task.name, policy = options.policy.name,
    status = episode.ending, reason = verdict.reason ~= "" and verdict.reason or nil, error = episode.error,
    seconds = episode.seconds, turns = episode.turns, turn_count = #episode.turns, labels = episode.labels,
    tokens = record.tokens, token_count = record.tokens and #record.tokens or 0, token_ids = record.token_ids,
    mask = record.mask, logprobs = record.logprobs, usage = record.usage,
    head = head_of(options), prompt = messages and { messages[1], messages[2] } or nil, start = best.start,
    verdict = verdict }
end

--- One episode of a policy that calls tools, whole, as the store keeps it; raises when there is no workspace.
--- `options` as for `run`, with the stage and step that the record is to have.
---@async
---@param options table
---@param index integer
---@return table
function search.episode(options, index)
  local found, message = play(options, index, options.seconds, {})
  if not found then
    error("no workspace: " .. tostring(message), 0)
  end
  return record_of(options, index, found)
end

-- What earlier processes of this run left.
local function resumed(run)
  local best, played, spent = nil, 0, 0
  for index, trajectory in pairs(run:trajectories(STAGE, 0)) do
    local whole = run:get("trajectories", trajectory.id)
    local found = { verdict = whole.verdict, files = whole.verdict.files or {}, trajectory = whole.id,
      start = whole.start or {} }
    best = verdicts.passed(whole.verdict) and better(found, best) and found or best
    played, spent = math.max(played, index), spent + (whole.seconds or 0)
  end
  return best, played, spent
end

--- Searches. The best verdict with its files, the files it began with and its trajectory's id; nil when nothing was
--- correct.
---@async
---@param options SearchOptions
---@return table|nil best, integer episodes
function search.run(options)
  local run = options.run
  local best, index, spent = resumed(run)
  local begin, judged_before = sched.now(), {}
  local most = options.policy.deterministic and 1 or options.episodes or math.huge
  while index < most do
    local left = options.seconds - spent - (sched.now() - begin)
    if left <= 0 then
      break
    end
    index = index + 1
    local found, message = play(options, index, left, judged_before)
    if not found then
      error("no workspace: " .. tostring(message), 0)
    end
    found.trajectory = assert(run:append("trajectories", record_of(options, index, found)))
    local verdict = found.verdict
    options.say(("episode %d: %s%s"):format(index, verdict.status, verdicts.passed(verdict)
      and (" %.2fx eager, %.2fx compile"):format(
      verdict.speedup.eager or 0, verdict.speedup.compile or 0) or verdict.reason ~= "" and " " .. verdict.reason
        or ""))
    best = verdicts.passed(verdict) and better(found, best) and found or best
    if found.episode.ending == "env_error" then
      return best, index, found.episode.error
    end
  end
  return best, index
end

return search
