-- One token-step episode: the player plays, and where its policy draws, the episode waits for a client that does. What
-- the player made of a step is the answer to that step; it is kept, so that a step that was sent twice is taken once
-- and answered twice.

local episode = require "agent.episode"
local json = require "khost.json"
local local_policy = require "policies.local"
local log = require "khost.log"
local remote = require "policies.remote"
local remote_text = require "policies.remote_text"
local sched = require "khost.sched"

local session = {}

local Session = {}
Session.__index = Session

---@class (exact) SessionOptions
---@field id string
---@field who ServeClient
---@field asked EpisodeRequest
---@field setting table    what the player takes of the service: judge, store, reward, target, limits of shells
---@field index integer    of the trajectory in the store
---@field told fun(record: table): table   what the client may know of a finished episode's verdict

---@param options SessionOptions
---@return table
function session.new(options)
  local asked = options.asked
  local self = setmetatable({ id = options.id, who = options.who, options = options, idle_s = asked.limits.idle_s,
    limits = asked.limits, at = 0, known = 0, drawn = 0, observed = 0, steps = sched.channel(1), waiters = {} },
    Session)
  local name = "remote " .. options.who.name
  if not asked.tokenizer then
    self.policy = remote_text.open(asked.format, { name = name, tokens = asked.limits.tokens,
      ask = function(messages, most, tokens) return self:talk(messages, most, tokens) end })
    return self
  end
  local engine = remote.open { tokenizer = asked.tokenizer.tokenizer, ends = asked.tokenizer.ends,
    positions = asked.limits.tokens, draw = function(tokens, how) return self:draw(tokens, how) end }
  self.policy = local_policy.open(engine, asked.format, { name = name, tokens = asked.limits.tokens, fixed = true })
  return self
end

-- Whoever waits for the answer to the step that was taken last gets it.
local function publish(self, answer)
  self.answer = answer
  local waiters = self.waiters
  self.waiters = {}
  for _, waiter in ipairs(waiters) do
    waiter:put(true)
  end
end

-- 1 where the client drew, 0 where it reads: the last step's tokens, then what is appended.
local function labels(drawn, appended)
  local list = json.list {}
  for index = 1, drawn + appended do
    list[index] = index <= drawn and 1 or 0
  end
  return list
end

local function behind(tokens, known)
  local list = json.list {}
  for index = known + 1, #tokens do
    list[#list + 1] = tokens[index]
  end
  return list
end

-- Gives the client the answer to its last step and waits for the next one. Why none comes is a failure of ours in the
-- player's eyes, so that the episode is void.
local function next_step(self, answer)
  answer.done, answer.max_tokens = false, self.max_tokens
  publish(self, answer)
  local step, message, code = sched.timeout(self.idle_s, self.steps.take, self.steps)
  if not step then
    self.ended_by = self.ended_by or code == "timeout" and ("no step came for %d s"):format(self.idle_s) or message
    return nil, self.ended_by, "gone"
  elseif self.ended_by then
    return nil, self.ended_by, "gone"
  elseif step.finish == "failed" then
    return nil, "the client could not draw: " .. (step.message or "it did not say why"), "gone"
  end
  self.last, self.drawn = step.tokens, self.drawn + #step.tokens
  self.versions = self.versions or {}
  self.versions[#self.versions + 1] = step.version
  return step
end

--- What the policy's draw is: ids that the client does not know yet against drawn ones.
---@async
---@param tokens integer[]
---@param how {max_tokens: integer, stop: integer[]}
---@return RemoteDraw|nil, string? message, string? code
function Session:draw(tokens, how)
  if self.ended_by then
    return nil, self.ended_by, "gone"
  end
  local append = behind(tokens, self.known)
  self.stops, self.max_tokens = how.stop, how.max_tokens
  self.observed, self.known = self.observed + #append, #tokens
  local step, message, code = next_step(self, { append = append, stop = how.stop,
    labels = labels(#(self.last or {}), #append) })
  self.known = self.known + (step and #step.tokens or 0)
  return step, message, code
end

--- The same for a server of messages: those that the client does not know yet against a text with its ids.
---@async
---@param messages {role: string, content: string}[]
---@param most integer     tokens of the answer
---@param tokens integer[] of the conversation so far
---@return TextDraw|nil, string? message, string? code
function Session:talk(messages, most, tokens)
  if self.ended_by then
    return nil, self.ended_by, "gone"
  end
  self.max_tokens, self.tokens = most, tokens
  local step, message, code = next_step(self, { messages = json.list(messages) })
  self.observed = self.observed + (step and #step.prompt_tokens - #tokens or 0)
  return step, message, code
end

-- Where a server of messages drew behind other ids than those that the episode has.
local function broken_prefix(self, step)
  local at = remote_text.differs(self.tokens, step.prompt_tokens)
  if at then
    return ("prompt_tokens[%d]: the prompt does not continue the %d tokens of the conversation; the server must keep "
      .. "the ids of earlier answers"):format(at - 1, #self.tokens)
  end
end

-- What is wrong with drawn ids, by what was asked for.
local function wrong_ids(self, step)
  local size, is_stop = self.options.asked.tokenizer.tokenizer:size(), {}
  for _, id in ipairs(self.stops) do
    is_stop[id] = true
  end
  for index, token in ipairs(step.tokens) do
    if token >= size then
      return ("tokens[%d] = %d: the tokenizer has %d tokens; keep the engine from drawing ids beyond")
        :format(index - 1, token, size)
    elseif is_stop[token] and index < #step.tokens then
      return ("tokens[%d] = %d ends an answer, and %d tokens are behind it; give the engine the stop_token_ids of the "
        .. "answer before"):format(index - 1, token, #step.tokens - index)
    end
  end
  local stopped = is_stop[step.tokens[#step.tokens]] == true
  if step.finish == "stop" and not stopped then
    return "finish is stop, and the last token is none of the stop_token_ids; have the engine return the token that "
      .. "ended the answer, with its log-probability"
  elseif step.finish == "length" and stopped then
    return "finish is length, and the last token ends the answer: finish must be stop"
  end
end

-- What is wrong with a step's tokens, with a code; nil for nothing.
local function wrong_draw(self, step)
  local message
  local code = "bad_input"
  if step.finish == "failed" then
    return nil
  elseif self.tokens and #step.prompt_tokens > self.options.asked.limits.tokens then
    message = ("prompt_tokens: the prompt has %d ids, and limits.tokens = %d"):format(#step.prompt_tokens,
      self.options.asked.limits.tokens)
  elseif #step.tokens > self.max_tokens then
    message = ("tokens: at most %d may be drawn in this step, got %d"):format(self.max_tokens, #step.tokens)
  elseif self.tokens then
    message, code = broken_prefix(self, step), "broken_prefix"
  else
    message = wrong_ids(self, step)
  end
  return message, message and code or nil
end

local function await(self)
  while not self.answer do
    local waiter = sched.channel(1)
    self.waiters[#self.waiters + 1] = waiter
    waiter:take()
  end
  return self.answer
end

--- Why a step of this number is not taken; nil for the next one, and for the last one, which may be sent again.
---@param number integer
---@return string|nil message, string? code   late, early, ended
function Session:misplaced(number)
  if number == self.at then
    return nil
  elseif number < self.at then
    return ("step %d came late: step %d was taken since"):format(number, self.at), "late"
  elseif self.answer and self.answer.done then
    return ("the episode is over (%s)"):format(self.answer.error or self.answer.ending or self.answer.void), "ended"
  elseif number > self.at + 1 then
    return ("step %d came early: step %d is next"):format(number, self.at + 1), "early"
  elseif not self.answer then
    return ("step %d came early: step %d has no answer yet"):format(number, self.at), "early"
  end
end

--- Takes a step, or one that was sent again, and waits for its answer.
---@async
---@param step StepRequest
---@return table|nil answer, string? message, string? code   bad_input, broken_prefix, late, early, conflict, ended
function Session:step(step)
  if step.step == self.at then
    if step.mark ~= self.mark then
      return nil, ("step %d was taken with other tokens; those count"):format(step.step), "conflict"
    end
    return await(self)
  end
  local wrong, code = self:misplaced(step.step)
  if not wrong then
    wrong, code = wrong_draw(self, step)
  end
  if wrong then
    return nil, wrong, code
  end
  self.at, self.mark, self.answer = step.step, step.mark, nil
  self.steps:put(step)
  return await(self)
end

--- Waits for what stands in front of the first answer.
---@async
---@return table answer
function Session:begun() return await(self) end

--- Ends the episode where it next waits for the client, as void.
---@param why string
function Session:stop(why)
  if self.ended_by or self.answer and self.answer.done then
    return
  end
  self.ended_by = why
  -- Only an episode that waits for a step may be given one; what works on a step looks at `ended_by` itself.
  if self.answer then
    self.steps:put({ finish = "failed", message = why })
  end
end

-- The policy, which refuses to begin where the prompt leaves no room.
local function with_room(self)
  local policy = self.policy
  return { name = policy.name, format = policy.format, begin = function(task, stream)
    local conversation, limits = policy.begin(task, stream), self.options.asked.limits
    if self.options.asked.tokenizer then
      conversation.most = math.min(conversation.most, #conversation.tokens + limits.response_tokens)
    else
      conversation.behind = limits.response_tokens  -- how long the prompt is, the first step says
    end
    if conversation:room() < 1 then
      self.refusal = ("limits.tokens = %d: the prompt alone has %d tokens"):format(limits.tokens, #conversation.tokens)
      error(self.refusal, 0)
    end
    return conversation
  end }
end

local function setting_of(self)
  local asked, setting = self.options.asked, {}
  for name, value in pairs(self.options.setting) do
    setting[name] = value
  end
  setting.policy, setting.stage, setting.step, setting.seed = with_room(self), "serve", 0, 0
  setting.turns, setting.seconds = asked.limits.turns, asked.limits.seconds
  setting.answer_tokens, setting.measure = asked.limits.answer_tokens, asked.measure
  setting.reuse, setting.pick = false, "final"
  setting.draws = "serve " .. self.id
  return setting
end

-- Where the versions of the weights differ between answers, whoever learns from the episode must see it.
local function keep(self, record)
  record.client, record.versions = self.who.name, self.versions
  record.step = type(record.version) == "number" and record.version or 0
  record.id = assert(self.options.setting.store:append("trajectories", record))
end

--- Plays the episode to its end and stores it. Never raises but for a cancellation.
---@async
function Session:play()
  local asked, task = self.options.asked, {}
  for name, value in pairs(asked.task) do
    task[name] = value
  end
  task.timed = asked.measure
  local ok, record = pcall(episode.play, setting_of(self), task, self.options.index)
  local kept, problem = ok, record
  if ok then
    kept, problem = pcall(keep, self, record)
  end
  if kept then
    local told = self.options.told(record)
    told.done = true
    if asked.tokenizer then
      told.append, told.labels = json.list {}, labels(#(self.last or {}), 0)
    else
      told.messages = json.list {}
    end
    publish(self, told)
    return
  end
  local why = problem == sched.CANCELLED and "the service is ending"
    or "the service failed at this episode; its log says why"
  if not self.refusal and problem ~= sched.CANCELLED then
    log.error("serve_episode_failed", { client = self.who.name, message = tostring(problem) })
  end
  publish(self, { done = true, failed = true, void = why, append = json.list {}, labels = json.list {},
    messages = json.list {} })
  if problem == sched.CANCELLED then
    error(problem, 0)
  end
end

return session
