-- The agent: think, act, observe, until it is done or a limit ends it. A policy begins a conversation;
-- the format of its answers says what they mean; an environment does what they ask for.
--
--   episode.ending   final_answer, turn_limit, token_limit, time_limit, invalid_calls, stuck, env_error, cut
--   episode.labels   what filters look for: repeat_call, repeat_error, ping_pong, and every label of the parser

local limits = require "agent.limits"
local sched = require "khost.sched"

local loop = {}

---@class (exact) Turn
---@field index integer
---@field role string
---@field text string
---@field tool? string          what was done: "files", or a tool's name
---@field label? string         what was wrong with the answer
---@field calls? table[]       of tools: {name, arguments, status, label, coerced, seconds, observation}
---@field changes? table<string, string|false>   files that this turn made different; false: gone
---@field workspace? string     hash of the files after it
---@field verified? boolean     what a verification said of these files; nil: none was asked
---@field observation? string
---@field status? string
---@field seconds number
---@field token_count integer
---@field thought? string       of models that give it apart from the answer

---@class (exact) AgentEpisode
---@field turns Turn[]
---@field ending string
---@field labels table<string, integer>
---@field record table          tokens, mask, logprobs of policies that have them
---@field seconds number

local function mark(episode, label)
  episode.labels[label] = (episode.labels[label] or 0) + 1
end

-- What an answer means: {kind = "final" | "invalid" | "act", …}.
local function meaning(policy, drawn)
  local action = policy.format.action(drawn.text, { cut = drawn.cut, calls = drawn.calls })
  if action.kind == "invalid" and drawn.cut then
    action.label = "cut"
  end
  return action
end

-- What was called and what came of it, as the record keeps it.
local function calls_of(action, observations)
  local calls = {}
  for index, call in ipairs(action.calls or {}) do
    local seen = observations and observations[index] or {}
    calls[index] = { id = call.id, name = call.name, arguments = call.arguments, label = seen.label or call.label,
      status = seen.status, coerced = seen.coerced, seconds = seen.seconds, observation = seen.text }
  end
  return #calls > 0 and calls or nil
end

local function act(episode, environment, action, turn)
  local observation = environment.act(action)
  turn.calls, turn.changes = calls_of(action, observation.observations), observation.changes
  turn.workspace, turn.verified = observation.workspace, observation.verified
  turn.tool, turn.status, turn.observation = observation.tool, observation.status, observation.text
  turn.seconds = observation.seconds or 0
  episode.steps[#episode.steps + 1] = { action = action.signature, observation = observation.text,
    failed = observation.status ~= "ok", polling = observation.polling }
  for _, label in ipairs(observation.labels or { observation.label }) do
    mark(episode, label)
  end
  -- What was read although it was not quite right.
  for _, call in ipairs(action.calls or {}) do
    if call.name and call.label then
      mark(episode, call.label)
    end
  end
  if action.label then
    mark(episode, action.label)
  end
  return observation
end

-- One answer and what it leads to. Returns how the episode ended, or nothing.
local function step(self, episode, conversation)
  local begin = sched.now()
  local drawn, message, code = conversation:draw(self.limits.answer_tokens)
  if not drawn then
    episode.error = code ~= "limit" and message or nil
    return code == "limit" and "token_limit" or "env_error"
  end
  local turn = { index = #episode.turns + 1, role = "assistant", text = drawn.text, seconds = sched.now() - begin,
    token_count = drawn.tokens, thought = drawn.thought }
  episode.turns[turn.index] = turn
  if drawn.label then
    turn.label = drawn.label
    mark(episode, drawn.label)
  end
  local action = meaning(self.policy, drawn)
  if action.kind == "final" then
    return "final_answer"
  end
  local reply, observed
  if action.kind == "invalid" then
    turn.label = action.label
    mark(episode, action.label)
    if drawn.cut then
      return "cut"
    end
    episode.invalid = episode.invalid + 1
    if episode.invalid >= self.limits.invalid_calls then
      return "invalid_calls"
    end
    local explain = self.policy.format.explain
    reply = "format error: " .. (explain and explain(action.label) or action.label)
    turn.observation, turn.status = reply, "invalid"
    episode.steps[#episode.steps + 1] = { action = "invalid " .. action.label, observation = reply, failed = true }
  else
    local last = turn.index >= self.limits.turns
    action.last, action.room = last, conversation.room and conversation:room()
    action.left_s = math.max(self.limits.seconds - (sched.now() - episode.began), 0)
    local observation = act(episode, self.environment, action, turn)
    if observation.status == "lost" then
      episode.error = observation.text
      return "env_error"
    end
    episode.invalid = observation.status == "invalid" and episode.invalid + 1 or 0
    if episode.invalid >= self.limits.invalid_calls then
      return "invalid_calls"
    end
    reply, observed = observation.text, observation.observations
  end
  local stuck = limits.stuck(episode.steps, self.limits)
  if stuck then
    mark(episode, stuck)
    if self.limits.stop_when_stuck then
      return "stuck"
    end
  end
  if turn.index >= self.limits.turns then
    return "turn_limit"
  elseif sched.now() - episode.began > self.limits.seconds then
    return "time_limit"
  elseif not conversation:observe(reply, self.reserve, observed) then
    return "token_limit"
  end
end

---@class (exact) AgentOptions
---@field policy table         scripts/policies/{local,script}.lua
---@field environment {act: fun(action: table): table}
---@field limits? table        scripts/agent/limits.lua
---@field reserve? integer     tokens that an answer needs; without them the episode ends

--- Plays one episode. Only cancellation raises.
---@async
---@param options AgentOptions
---@param task table
---@param stream table         random numbers of this episode
---@return AgentEpisode
function loop.run(options, task, stream)
  local self = { policy = options.policy, environment = options.environment, limits = limits.new(options.limits),
    reserve = options.reserve or 1 }
  local episode = { turns = {}, labels = {}, steps = {}, invalid = 0, began = sched.now() }
  local conversation = options.policy.begin(task, stream)
  repeat
    local ok, ending = pcall(step, self, episode, conversation)
    if not ok then
      if ending == sched.CANCELLED then
        error(ending, 0)
      end
      episode.error, ending = tostring(ending), "env_error"
    end
    episode.ending = ending
  until episode.ending
  episode.record, episode.seconds = conversation:record(), sched.now() - episode.began
  episode.steps, episode.began, episode.invalid = nil, nil, nil
  return episode
end

--- What was wrong with the answers that could not be read, each word once, in the order of the turns.
---@param episode AgentEpisode
---@return string[]
function loop.unreadable(episode)
  local list, seen = {}, {}
  for _, turn in ipairs(episode.turns) do
    if turn.label and not seen[turn.label] then
      seen[turn.label] = true
      list[#list + 1] = turn.label
    end
  end
  return list
end

return loop
