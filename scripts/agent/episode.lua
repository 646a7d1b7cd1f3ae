-- The only player of episodes: from a task to a trajectory with its verdict and, where a scheme scores it, its reward.
-- Training, collection, validation, evaluation and searches differ by their setting alone.
--
-- An episode that ended through us has a void verdict and no reward, whatever had been written by then: the policy's
-- server failed, a workspace was lost, or the judge said nothing about a candidate that the agent asked about.

local best = require "judge.best"
local client = require "judge.client"
local environment = require "agent.environment"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local loop = require "agent.loop"
local machine = require "khost.machine"
local prompt = require "agent.prompt"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local template = require "run.template"
local tools = require "agent.tools"
local verdicts = require "judge.verdict"

local episode = {}

episode.TRIES = 3         -- times that an episode is played until it is one that did not end through us
local RESERVE = 64        -- tokens that must be left for an answer, or all of a shorter one

---@class (exact) Setting
---@field judge table            judge.client
---@field store khost.Store
---@field reward? table          run.reward; without it nothing is scored
---@field loop? table           run.live of the agent loop, which may be edited during a run; agent.loop when absent
---@field seed integer
---@field target "cpu"|"cuda"    whose skill and template the agent works with
---@field limits? table          [limits] of the configuration, for the agent's shell; the host's own when absent
---@field policy table           its format says whether answers are files or calls of tools
---@field stage string
---@field step integer
---@field turns integer          1 with answers that are files: no workspace is needed
---@field seconds? number        of the episode; agent.limits' when absent
---@field answer_tokens? integer
---@field observation_tokens? integer   of what tools say about one answer, for policies that can count tokens
---@field measure boolean        whether a correct candidate of a timed task is timed
---@field reuse boolean|string   identical candidates are judged once; a word: once for all settings with this word
---@field pick "final"|"best"    which state of the workspace is judged
---@field salvage? boolean       what stood before a failure of ours counts (a search), instead of a void
---@field whole? boolean         keeps what it was made with, the prompt and the files that it began with
---@field salt? string           of the random numbers; the stage when absent
---@field draws? string          the whole name of the random numbers but the index; by seed, salt and step when absent
---@field replay? boolean       only what the store has counts: nothing is played, not even what failed through us
---@field known? table<string, table>   verdicts by artefact that are not asked for again
---@field say? fun(text: string)
---@field drawn? fun()          the policy has given its last answer; what is left is the verdict

--- The setting of a run of recipes, with what a stage adds.
---@param run table   run.pipeline
---@param more table
---@return Setting
function episode.of_run(run, more)
  local setting = { judge = run.judging, store = run.store, reward = run.reward, loop = run.loop, seed = run.seed,
    target = run.config.machine.target, limits = run.config.limits }
  for name, value in pairs(more) do
    setting[name] = value
  end
  return setting
end

-- Single-turn answers need no workspace: their files are the candidate.
local function flat_world(skill)
  local world = { states = {} }
  function world.act(action)
    world.files = template.with(action.files, skill)
    world.states[1] = { files = world.files }
    return { tool = "files", status = "ok", text = "" }
  end
  function world.candidate()
    return world.files
  end
  return world
end

-- The configuration's limits as those of an agent's shell.
local function shell_options(limits)
  return limits and { timeout_s = limits.command_s, limits = { memory_bytes = limits.memory_mb * 2 ^ 20,
    processes = limits.processes, tmp_bytes = limits.tmp_mb * 2 ^ 20 } } or nil
end

local function world_in(setting, task, workspace)
  local format = setting.policy.format
  if format.answers_are_files then
    return environment.files(workspace, task, setting.judge,
      { reuse = setting.reuse == true, feedback = format.feedback })
  end
  return environment.tools(workspace, task.toolset, { respond = format.respond, untimed = task.timed == false,
    shell_options = shell_options(setting.limits), count = setting.policy.count,
    observation_tokens = setting.policy.count and setting.observation_tokens, feedback = function(kind, files, how)
    return setting.judge:feedback(kind, task, files, how)
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

local function with_world(setting, task, fn)
  if setting.turns == 1 and setting.policy.format.answers_are_files then
    return fn(flat_world(task.skill), template.with({}, task.skill))
  end
  return sandbox.within(template.folder(task.skill), function(workspace)
    local start = setting.whole and visible(workspace:snapshot()) or nil
    return fn(world_in(setting, task, workspace), start)
  end, { files = { ["model.py"] = task.source, ["SKILL.md"] = template.manual(task.skill) } })
end

-- Why nothing may be said of the policy by this episode: a void verdict, or nil.
local function fault_of_ours(ended, world)
  if ended.ending == "env_error" then
    return verdicts.blank("void", "task", "env_error", tostring(ended.error or ""))
  elseif world.void then
    return verdicts.blank("void", "verify", "judge_lost", world.void)
  end
end

-- The verdict, and the files that it is about.
local function judged(setting, task, ended, world)
  local fault = fault_of_ours(ended, world)
  if fault and not setting.salvage then
    return fault, world.candidate()
  end
  local function verdict_of(files)
    return setting.judge:verdict(task, files, { measure = setting.measure and task.timed, reuse = setting.reuse })
  end
  local known = setting.known or {}
  local states = setting.pick == "best" and best.states(world) or {}
  local found = best.of(states, setting.policy.deterministic and #states or best.JUDGED, function(state)
    known[state.artefact] = known[state.artefact] or verdict_of(state.files)
    return known[state.artefact]
  end)
  if found then
    return found.verdict, found.files
  end
  local files = world.candidate()
  if files then
    return verdict_of(files), files
  end
  return fault or client.nothing(loop.unreadable(ended))
end

-- What a trajectory was made with: tools, skill, seed, machine.
local function head_of(setting, task)
  local facts = machine.facts()
  return { seed = setting.seed, model = setting.policy.model or setting.policy.name, skill = task.skill,
    skill_hash = fs.sha256(template.manual(task.skill)), tools_hash = fs.sha256(json.encode(tools.load():schemas())),
    turns = setting.turns, kernel = facts.kernel, machine = facts.machine, cores = facts.cores }
end

-- The messages in front of the first answer, as far as the conversation does not say them itself.
local function prompt_of(setting, task, messages)
  if not messages and not setting.policy.format.answers_are_files then
    messages = {}
    for at, message in ipairs(prompt.messages(task, setting.policy.format.describe,
      setting.policy.format.brief)) do
      messages[at] = { role = message.role, content = message.text }
    end
  end
  return messages and { messages[1], messages[2] } or nil
end

local function record_of(setting, task, index, ended, verdict)
  local drawn = ended.record
  local record = { stage = setting.stage, step = setting.step, index = index, task = task.id, name = task.name,
    policy = setting.policy.name, status = ended.ending, reason = verdict.reason ~= "" and verdict.reason or nil,
    error = ended.error, seconds = ended.seconds, turns = ended.turns, turn_count = #ended.turns,
    labels = ended.labels, tokens = drawn.tokens, token_count = drawn.tokens and #drawn.tokens or 0,
    token_ids = drawn.token_ids, mask = drawn.mask, logprobs = drawn.logprobs, version = drawn.version,
    usage = drawn.usage, verdict = verdict }
  if setting.whole then
    record.head, record.prompt = head_of(setting, task), prompt_of(setting, task, drawn.messages)
  end
  return record
end

--- The task as policies and worlds see it: with its skill, and the tools of a policy that calls some.
---@param target "cpu"|"cuda"
---@param format table   the policy's chat format
---@param task table
---@return table
function episode.task_for(target, format, task)
  local whole = { skill = template.skill(target) }
  for name, value in pairs(task) do
    whole[name] = value
  end
  whole.toolset = not format.answers_are_files and tools.load() or nil
  return whole
end

local function score(setting, record)
  local verdict = record.verdict
  local reward, parts, hash = setting.reward:score({ verdict = verdict, turns = record.turns, labels = record.labels },
    setting.step)
  if reward then
    record.reward, record.parts, record.script_hash = reward, parts, hash
  else
    record.void = tostring(parts)
  end
  verdict.reward, verdict.script_hash = reward, record.script_hash
end

-- Plays by the run's version of the loop. One that raises is given up for the version before it, and the episode is
-- played again.
local function ended_of(setting, ...)
  local ok, ended = pcall((setting.loop and setting.loop:value() or loop).run, ...)
  if not ok then
    if ended ~= sched.CANCELLED and setting.loop then
      setting.loop:fall_back(tostring(ended))
    end
    error(ended, 0)
  end
  return ended
end

--- Plays, judges and scores one episode. The result is what the store keeps; `void` says why it has no reward. Raises
--- when there is no workspace.
---@async
---@param setting Setting
---@param task table     id, name, source, graph?, timed?
---@param index integer
---@return table
function episode.play(setting, task, index)
  local draws = setting.draws or ("%d %s %d"):format(setting.seed, setting.salt or setting.stage, setting.step)
  local stream = random.stream(("%s %d"):format(draws, index))
  local whole = episode.task_for(setting.target, setting.policy.format, task)
  local record, message = with_world(setting, whole, function(world, start)
    local ended = ended_of(setting, { policy = setting.policy, environment = world,
      reserve = math.min(RESERVE, setting.answer_tokens or RESERVE),
      limits = { turns = setting.turns, answer_tokens = setting.answer_tokens, seconds = setting.seconds } }, whole,
      stream)
    if world.close then
      world.close()
    end
    if setting.drawn then
      setting.drawn()
    end
    if setting.say then
      setting.say(("episode %d: %s after %d turns; judging"):format(index, ended.ending, #ended.turns))
    end
    local verdict, files = judged(setting, whole, ended, world)
    verdict.files, verdict.policy, verdict.task = files, setting.policy.name, task.id
    local made = record_of(setting, whole, index, ended, verdict)
    made.start = setting.whole and start or nil
    return made
  end)
  if not record then
    error("no workspace: " .. tostring(message), 0)
  end
  if setting.reward then
    score(setting, record)
  end
  return record
end

--- Whether an episode says nothing through a failure of ours, so that playing it again may help. (A task that cannot be
--- judged is void too, and would be so again.)
---@param record table   with its verdict
---@return boolean
function episode.failed_through_us(record)
  return verdicts.is_void(record.verdict)
end

--- Plays one, and again while it fails through us, at most `episode.TRIES` times and with the same random numbers.
--- Raises what the last try raised.
---@async
---@param setting Setting
---@param task table
---@param index integer
---@return table
function episode.play_until_counted(setting, task, index)
  for try = 1, episode.TRIES do
    local ok, record = pcall(episode.play, setting, task, index)
    if not ok and (record == sched.CANCELLED or try == episode.TRIES) then
      error(record, 0)
    elseif ok and (try == episode.TRIES or not episode.failed_through_us(record)) then
      return record
    end
    log.warn("episode_played_again", { stage = setting.stage, step = setting.step, task = task.id, try = try,
      why = ok and (record.error or record.verdict.reason) or tostring(record) })
  end
end

--- The same, kept: a trajectory that the store has already is not played again, unless it failed through us.
---@async
---@param setting Setting
---@param task table
---@param index integer
---@param known? table<integer, table>   store:trajectories(stage, step)
---@return table
function episode.kept(setting, task, index, known)
  if known and known[index] then
    -- By its id it comes with its verdict and its turns.
    local whole = setting.store:get("trajectories", known[index].id)
    if setting.replay or not episode.failed_through_us(whole) then
      return whole
    end
  elseif setting.replay then
    error(("stage %s, step %d: episode %d is not in the store"):format(setting.stage, setting.step, index), 0)
  end
  local record = episode.play_until_counted(setting, task, index)
  record.id = assert(setting.store:append("trajectories", record))
  return record
end

--- All stored trajectories of some stages, whole: with verdict and turns.
---@param run table
---@param stages string[]
---@return table[]
function episode.of_stages(run, stages)
  local list = {}
  for _, stage in ipairs(stages) do
    for _, row in ipairs(assert(run.store:list("trajectories", { where = { stage = stage } }))) do
      list[#list + 1] = run.store:get("trajectories", row.id)
    end
  end
  return list
end

return episode
