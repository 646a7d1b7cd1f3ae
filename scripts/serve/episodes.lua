-- Token-step episodes over HTTP: khost plays and encodes, the client draws tokens and trains (docs/serve.md).
--
--   POST   /v1/episodes           begins one: the prompt's tokens
--   POST   /v1/episodes/ID/step   drawn tokens in, tokens to append out, at the end the reward
--   DELETE /v1/episodes/ID        gives one up
--
-- An episode belongs to the client that began it; to others it does not exist. An open episode that gets no step in
-- time ends as void. What is over is remembered for a while, so that its last step can be answered again.

local answers = require "serve.answers"
local episode_request = require "serve.episode_request"
local fs = require "khost.fs"
local gate = require "serve.gate"
local json = require "khost.json"
local replies = require "serve.replies"
local sched = require "khost.sched"
local session = require "serve.episode_session"
local tokenizers = require "serve.tokenizers"

local episodes = {}

local Episodes = {}
Episodes.__index = Episodes

local KEPT_S = 600        -- for which an episode that is over can be asked about
local TOKEN_BYTES = 24    -- of one token in the store
local RETRY_S = 5         -- until an open episode may have ended
local STATUS = { bad_input = 400, broken_prefix = 409, late = 409, early = 409, conflict = 409, ended = 410 }

---@class (exact) EpisodesOptions
---@field app table            serve.app's own: judge, clients, tasks, schemes, target
---@field turns table          serve.turns
---@field metrics table        serve.metrics
---@field bodies table         serve.bodies
---@field tokenizers table     serve.tokenizers
---@field store khost.Store    where episodes are kept
---@field most integer         open at once, of all clients together
---@field limits? table        [limits] of the configuration, for agents' shells

---@param options EpisodesOptions
---@return table
function episodes.new(options)
  return setmetatable({ options = options, by_id = {}, open = 0, beginning = {}, index = 0,
    playing = {},
    starting = sched.channel(options.most) }, Episodes)
end

-- The judge of one episode, which remembers what it said in this episode and nothing of others.
local function judge_for(self, who)
  return self.options.turns:judge(who, nil, self.options.app.judge)
end

local function open_of(self, name)
  local count = self.beginning[name] or 0
  for _, one in pairs(self.by_id) do
    count = count + (one.who.name == name and one.open and 1 or 0)
  end
  return count
end

-- Forgets what was over long ago.
local function forget_old(self)
  local now = sched.now()
  for id, one in pairs(self.by_id) do
    if one.over_s and now - one.over_s > KEPT_S then
      self.by_id[id] = nil
    end
  end
end

-- Why no further episode may begin for this client.
local function full(self, who)
  if self.draining then
    return replies.failed(503, "draining", "the service is ending", replies.VOID_RETRY_S)
  end
  local message, seconds = self.options.turns.usage:exceeded(who)
  local most = who.quotas.episodes
  if message then
    return replies.failed(429, "quota", message, seconds)
  elseif open_of(self, who.name) >= most then
    return replies.failed(429, "quota", ("episodes = %g of this client are open, and no more may be"):format(most),
      RETRY_S)
  elseif self.open >= self.options.most then
    return replies.failed(429, "busy", ("%d episodes are open, and no more may be"):format(self.open), RETRY_S)
  end
end

-- Megabytes that an episode takes in the store: ids, masks and log-probabilities, and the texts of its turns.
local function stored_mb(record)
  local bytes = TOKEN_BYTES * #(record.tokens or {})
  for _, turn in ipairs(record.turns or {}) do
    bytes = bytes + #(turn.text or "") + 2 * #(turn.observation or "")
  end
  return bytes / 2 ^ 20
end

-- What a client is told of a finished episode.
local function told(self, who, record)
  local text = table.concat(record.tokens or {}, ",")
  -- What ended an episode through us says more than the sentence about all voids.
  local void = record.void and (record.error or record.void) or json.null
  return { reward = record.reward or json.null, void = void, parts = record.parts,
    ending = record.status, turns = record.turn_count, trajectory = record.id, script_hash = record.script_hash,
    token_count = record.token_count, tokens_hash = fs.sha256(text), error = record.error,
    verdict = answers.verdict(record.verdict, who.rights) }
end

local function count(self, one)
  local answer = one.answer or {}
  local m = self.options.metrics
  m:add("episodes_total", { ending = answer.ending or "failed" })
  m:add("episode_tokens_total", { kind = "drawn" }, one.drawn)
  m:add("episode_tokens_total", { kind = "observed" }, one.observed)
  if answer.void and answer.void ~= json.null then
    m:add("episodes_void_total", { ending = answer.ending or "failed" })
  end
end

-- Only what answers a last step again is kept of an episode that is over.
local function finish(self, one)
  self.open = self.open - 1
  one.open, one.over_s = false, sched.now()
  count(self, one)
  one.options, one.policy, one.last, one.versions, one.stops, one.tokens = nil, nil, nil, nil, nil, nil
end

-- Runs fn with an episode of the client more in the counts of open ones: what waits in the queue before an episode is
-- there has no other limit.
local function counted(self, who, fn, ...)
  local name = who.name
  self.open, self.beginning[name] = self.open + 1, (self.beginning[name] or 0) + 1
  local ok, found, trouble = pcall(fn, self, who, ...)
  self.open, self.beginning[name] = self.open - 1, self.beginning[name] - 1
  if not ok then
    error(found, 0)
  end
  return found, trouble
end

local function with_graph(self, who, asked)
  if asked.format ~= require "chat.tiny" then
    return true
  end
  local graph, message, code = judge_for(self, who):trace(asked.task)
  if not graph then
    return nil, code == "bad_task" and replies.failed(400, "bad_input", "task: " .. tostring(message))
      or replies.unanswered(message, code, RETRY_S)
  end
  local task = { graph = graph }
  for name, value in pairs(asked.task) do
    task[name] = task[name] or value
  end
  asked.task = task
  return true
end

local function opened(self, who, asked, scheme)
  self.index = self.index + 1
  local reward = { score = function(_, episode)
    return self.options.app.schemes:score_episode(scheme, episode)
  end }
  local one = session.new { id = tokenizers.fresh_id(), who = who, asked = asked, index = self.index,
    setting = { judge = judge_for(self, who), store = self.options.store, reward = reward,
      target = self.options.app.target, limits = self.options.limits },
    told = function(record)
      self.options.turns.usage:add(who.name, { disk_mb = stored_mb(record) })
      return told(self, who, record)
    end }
  one.open, one.with_text = true, not asked.tokenizer
  self.open = self.open + 1
  self.by_id[one.id] = one
  self.starting:put(function()
    local ok, reason = pcall(one.play, one)
    finish(self, one)
    if not ok then
      error(reason, 0)
    end
  end)
  return one
end

local function said(one, answer)
  local body = { id = one.id, step = one.at }
  for name, value in pairs(answer) do
    body[name] = value
  end
  body.stop, body.stop_token_ids = nil, answer.stop
  return { status = 200, type = replies.JSON, body = json.encode(body) .. "\n" }
end

--- POST /v1/episodes.
---@async
---@param exchange khost.Exchange
---@param who ServeClient
---@return table answer
function Episodes:create(exchange, who)
  forget_old(self)
  local refusal = full(self, who)
  if refusal then
    return refusal
  end
  local text, message, code = self.options.bodies:read(exchange, who)
  local asked
  if text then
    local app = self.options.app
    asked, message, code = episode_request.create(text, { tasks = app.tasks, may_submit = who.rights.tasks == true,
      target = app.target, tokenizers = self.options.tokenizers })
  end
  if not asked then
    return replies.bad_body(code, message)
  end
  local scheme, unknown = self.options.app.schemes:get(asked.scheme)
  if not scheme then
    return replies.failed(400, "bad_input", "scheme: " .. unknown)
  end
  refusal = full(self, who)  -- others came meanwhile
  if refusal then
    return refusal
  end
  local ready, trouble = counted(self, who, with_graph, asked)
  refusal = not ready and trouble or full(self, who)
  if refusal then
    return refusal
  end
  local one = opened(self, who, asked, scheme)
  local answer = one:begun()
  if answer.done then
    self.by_id[one.id] = nil
    return one.refusal and replies.failed(400, "bad_input", one.refusal)
      or replies.failed(503, "void", "the episode could not begin", replies.VOID_RETRY_S)
  end
  local begun = { done = false, max_tokens = answer.max_tokens, stop = answer.stop, expires_s = one.idle_s }
  if one.with_text then
    begun.messages = answer.messages
  else
    begun.tokens, begun.token_count = answer.append, #answer.append
    begun.append, begun.labels = json.list {}, json.list {}
  end
  local first = said(one, begun)
  -- Nobody else knows its id: it would stay open until it is idle, and count in the client's quota.
  first.unsent = function() one:stop "the answer to its beginning did not reach the client" end
  if exchange:gone() then
    first.unsent()
    return replies.failed(400, "half_closed", "the connection was closed, or half closed, while the episode began")
  end
  return first
end

-- The episode of an id, for the client that began it.
local function found(self, who, id)
  forget_old(self)
  local one = self.by_id[id]
  if not one or one.who.name ~= who.name then
    return nil, replies.failed(404, "no_episode", "this client has no episode of this id; what is over is forgotten "
      .. ("after %d s"):format(KEPT_S))
  end
  return one
end

--- POST /v1/episodes/ID/step.
---@async
---@param exchange khost.Exchange
---@param who ServeClient
---@param id string
---@return table answer
function Episodes:step(exchange, who, id)
  local one, refusal = found(self, who, id)
  if not one then
    return refusal
  end
  -- Others wait while a body is read: it is bounded by what the episode may draw, and read where its number is right.
  local text, message, code = self.options.bodies:read(exchange, who,
    episode_request.most_bytes(one.limits, one.with_text))
  if not text then
    return replies.bad_body(code, message)
  end
  local number = episode_request.number_of(text)
  if number then
    message, code = one:misplaced(number)
  end
  if message then
    return replies.failed(STATUS[code], code, message)
  end
  local step
  step, message = episode_request.step(text, one.with_text, one.limits)
  if not step then
    return replies.failed(400, "bad_input", message)
  end
  if step.step > one.at and one.open then
    local used_up, seconds = self.options.turns.usage:exceeded(who)
    if used_up then
      return replies.failed(429, "quota", used_up, seconds)
    end
  end
  local begin = sched.now()
  local answer
  answer, message, code = one:step(step)
  if not answer then
    return replies.failed(STATUS[code], code, message)
  end
  self.options.metrics:observe("episode_step_seconds", sched.now() - begin)
  return said(one, answer)
end

--- DELETE /v1/episodes/ID. What is over is forgotten; an open one ends as void.
---@param who ServeClient
---@param id string
---@return table answer
function Episodes:delete(who, id)
  local one, refusal = found(self, who, id)
  if not one then
    return refusal
  end
  if one.open then
    one:stop "the client gave the episode up"
  else
    self.by_id[id] = nil
  end
  return { status = 200, type = replies.JSON, body = json.encode { id = id, ended = true } .. "\n" }
end

--- Plays what is begun, until the service drains.
---@async
function Episodes:serve()
  while true do
    local play = self.starting:take()
    if not play then
      return
    end
    local task
    task = sched.spawn(function()
      local ok, reason = pcall(play)
      self.playing[task] = nil
      if not ok then
        error(reason, 0)
      end
    end)
    self.playing[task] = true
  end
end

--- Cancels what is still played after a drain.
function Episodes:cancel()
  for task in pairs(self.playing) do
    task:cancel()
  end
end

--- Ends what waits for a client, as void; what works on a step ends behind it.
function Episodes:drain()
  self.draining = true
  for _, one in pairs(self.by_id) do
    if one.open then
      one:stop "the service is ending"
    end
  end
  self.starting:close()
end

--- The answer to a request below /v1/episodes; nil for a path that is none.
---@async
---@param exchange khost.Exchange
---@param head table
---@param path string
---@param clients table   serve.clients
---@return table|nil answer, string route
function Episodes:answer(exchange, head, path, clients)
  local id, step = path:match("^/v1/episodes/(%x+)(/?s?t?e?p?)$")
  local route = path == "/v1/episodes" and "create" or id and (step == "/step" and "step" or step == "" and "delete")
  if not route then
    return nil, "none"
  end
  local name = route == "create" and path or route == "step" and "/v1/episodes/ID/step" or "/v1/episodes/ID"
  local method = route == "delete" and "DELETE" or "POST"
  if head.method ~= method then
    return replies.refused(gate.refusal(405, "bad_method", ("%s takes %s"):format(name, method),
      { allow = method })), name
  end
  local who, refusal = gate.client(head, clients, "candidates")
  if not who then
    return replies.refused(refusal), name
  elseif route == "create" then
    return self:create(exchange, who), name
  elseif route == "step" then
    return self:step(exchange, who, id), name
  end
  return self:delete(who, id), name
end

return episodes
