-- What an agent acts on: a workspace in a jail, the judge's word about it, and for tool-calling models the tools.

local json = require "khost.json"
local client = require "judge.client"
local sched = require "khost.sched"
local tool_files = require "agent.tool_files"
local tune = require "agent.tune"
local verdicts = require "judge.verdict"

local environment = {}

local MOST_BYTES, LEAST_BYTES = 30000, 1000  -- of one observation
local BYTES_A_TOKEN = 3
local ROOM_SHARE = 0.25                      -- of the tokens that are left
local LOW_ROOM = 8192                        -- tokens: from here on the agent is told how many are left
local FITS, NOTICE_BYTES = 6, 80             -- tries to reach a number of tokens, and what a notice takes in each
local WRAP_TOKENS, LEAST_TOKENS = 40, 60     -- what surrounds an observation; what it has in any case
local LOW_SHARE = 4                          -- low is this many observations, where those are bounded by tokens

-- The candidate in a workspace: what the judge would take.
local function candidate(workspace)
  local files = {}
  for path, text in pairs(workspace:snapshot() or {}) do
    if not path:find("/%.") then
      files[path] = text
    end
  end
  return files
end

-- What is different from `before`: path to new text, or to false where the file is gone. Also what the files are now.
local function changes(before, now)
  local list = {}
  for path, text in pairs(now) do
    if before[path] ~= text then
      list[path] = text
    end
  end
  for path in pairs(before) do
    if now[path] == nil then
      list[path] = false
    end
  end
  return next(list) and list or nil
end

-- What the agent is told of a candidate comes from inputs that no verdict uses. A judge that has none gives a verdict.
local function look(judge, task, files, reuse)
  local answer, message, code = judge:feedback("verify", task, files)
  if answer then
    return answer
  elseif code == "bad_input" then
    return judge:verdict(task, files, { measure = false, reuse = reuse })
  end
  return verdicts.blank("void", "verify", "judge_lost", message)
end

-- Whoever learns from the episode must know that the agent was told nothing about its candidate.
local function note_void(self, verdict)
  if verdicts.is_void(verdict) then
    self.void = self.void or ("%s: %s"):format(verdict.reason, verdict.detail or "")
  end
end

--- Answers are files: they are written, built and verified, and the observation says what came of it. Every state that
--- was verified is kept in `states`, for the best of an episode. `void` says why the judge had no answer for the
--- agent, if that happened.
---@param workspace khost.Workspace
---@param task table
---@param judge table       judge.client
---@param options {feedback: fun(verdict: table): string, reuse: boolean}
---@return table
function environment.files(workspace, task, judge, options)
  local self = { states = {}, wrote = false }
  function self.act(action)
    local begin = sched.now()
    for path, text in pairs(action.files) do
      local ok, message = workspace:write(path, text)
      if not ok then
        return { tool = "files", status = "invalid", label = "write_refused", text = tostring(message) }
      end
    end
    self.wrote = true
    local changed = action.files
    if action.last then
      -- Nobody reads what the verification says: the final verdict will say it.
      self.states[#self.states + 1] = { files = candidate(workspace) }
      return { tool = "files", status = "ok", text = "", changes = changed, seconds = sched.now() - begin }
    end
    local files = candidate(workspace)
    local verdict = look(judge, task, files, options.reuse)
    local passed = verdicts.passed(verdict)
    note_void(self, verdict)
    self.states[#self.states + 1] = { files = files, correct = passed }
    return { tool = "files", status = passed and "ok" or "failed", text = options.feedback(verdict),
      changes = changed,
      seconds = sched.now() - begin }
  end
  function self.candidate()
    return self.wrote and candidate(workspace) or nil
  end
  return self
end

-- The text of one kind of request from inside, judged with inputs that an agent may see.
local function answer_request(self, workspace, options, request)
  local kind = request.kind
  if not options.feedback or (kind ~= "verify" and kind ~= "profile" and kind ~= "tune") then
    return { ok = false, text = ("nothing here answers %s"):format(tostring(kind)) }
  end
  if options.untimed and kind ~= "verify" then
    return { ok = false, text = "this task is verified and not timed: there is nothing to " .. kind }
  end
  local files = candidate(workspace)
  local ok, answer, message, code
  if kind == "tune" then
    ok, answer, message, code = pcall(tune.answer, request, files, function(changed)
      return options.feedback("profile", changed, { kernels = false })
    end)
  else
    ok, answer, message, code = pcall(options.feedback, kind, files)
  end
  if not ok then
    if answer == sched.CANCELLED then
      error(answer, 0)
    end
    answer, message = nil, answer
  end
  if not answer then
    -- What is wrong with the question is the agent's; all else is ours.
    self.void = self.void or code ~= "bad_input" and ("%s: %s"):format(kind, tostring(message)) or nil
    return { ok = false, text = ("%s could not be done: %s"):format(kind, tostring(message)) }
  end
  if kind == "tune" then
    return { ok = answer.ok, text = answer.text }
  end
  note_void(self, answer)
  if verdicts.counts(answer) then
    self.verified[client.artefact(files)] = verdicts.passed(answer)
  end
  if verdicts.passed(answer) then
    self.states[#self.states + 1] = { files = files, correct = true }
  end
  return { ok = answer.ok, text = answer.text }
end

-- Answers what `python3 -m utils.verification` and `utils.profiling` ask, for as long as the workspace is open.
-- Requests are made by programs of the agent: at most one is worked on at a time, and their number is limited.
local function serve(self, workspace, options)
  for _ = 1, options.most_requests or 400 do
    local asked, _, code = workspace:take_request(3600)
    if asked then
      local answer = answer_request(self, workspace, options, asked.request)
      workspace:answer(asked.id, json.encode(answer))
    elseif code ~= "timeout" then
      return
    end
  end
end

-- Bytes that one observation may have: a share of the room that is left, so that no file ends an episode.
local function share(room)
  return room and math.max(LEAST_BYTES, math.min(MOST_BYTES, math.floor(room * BYTES_A_TOKEN * ROOM_SHARE)))
    or MOST_BYTES
end

-- Shorter until an observation has at most `most` tokens; what was left out stands in a file that the text names.
local function fit(context, observation, name, most, count)
  local whole, bytes, tokens = observation.text, #observation.text, count(observation.text)
  for _ = 1, FITS do
    if tokens <= most then
      return
    end
    bytes = math.max(math.floor(bytes * most / tokens) - NOTICE_BYTES, 0)
    observation.text = tool_files.shorten(context, whole, bytes, name)
    tokens = count(observation.text)
  end
end

-- Observations as long as the agent may see them.
local function cut(context, observations, most_bytes, options)
  local tokens = options.observation_tokens and
    math.max(math.floor(options.observation_tokens / math.max(#observations, 1)) - WRAP_TOKENS, LEAST_TOKENS)
  for index, observation in ipairs(observations) do
    local name = ("turn-%s-%d"):format(observation.name, index)
    observation.text = tool_files.shorten(context, observation.text, math.max(most_bytes, LEAST_BYTES) + 512, name)
    if tokens then
      fit(context, observation, name, tokens, options.count)
    end
  end
end

-- The worst status of some observations with its label, and all labels.
local function outcome(observations)
  local worst, label, labels = "ok", nil, {}
  for _, observation in ipairs(observations) do
    if observation.status ~= "ok" then
      worst, label = observation.status, observation.label
      labels[#labels + 1] = label
    end
    if observation.coerced then
      labels[#labels + 1] = "coerced"
    end
  end
  return worst, label, labels
end

---@class (exact) ToolWorld
---@field respond fun(observations: table[], calls: table[]): any   observations as the model reads them
---@field shell_options? table
---@field feedback? fun(kind: "verify"|"profile", files: table<string, string>, how?: table): table|nil
---  a verdict for an agent: {text, ok, status, times}; `how` as for Judging:feedback
---@field most_requests? integer   of programs inside
---@field untimed? boolean         the task is verified only: its kernels have no times
---@field observation_tokens? integer   of all that the tools say about one answer; bytes alone bound it when absent
---@field count? fun(text: string): integer   tokens of a text, where observation_tokens is given

--- Answers are calls of tools. `states` holds what a verification of the agent found correct.
---@param workspace khost.Workspace
---@param toolset Toolset
---@param options ToolWorld
---@return table
function environment.tools(workspace, toolset, options)
  local context = { workspace = workspace, state = {}, shell_options = options.shell_options }
  local self = { context = context, states = {}, verified = {} }
  local before, server = candidate(workspace), nil
  local low_room = options.observation_tokens and LOW_SHARE * options.observation_tokens or LOW_ROOM
  function self.act(action)
    local begin = sched.now()
    server = server or sched.spawn(function() serve(self, workspace, options) end)
    local most_bytes = math.floor(share(action.room) / math.max(#action.calls, 1))
    context.output_bytes, context.left_s = most_bytes, action.left_s
    local observations = toolset:call_all(context, action.calls)
    cut(context, observations, most_bytes, options)
    local worst, label, labels = outcome(observations)
    if action.room and action.room < low_room then
      local last = observations[#observations]
      last.text = ("%s\n[about %d tokens are left]"):format(last.text, action.room)
    end
    local first, now = action.calls[1], candidate(workspace)
    local changed = changes(before, now)
    before = now
    local artefact = client.artefact(now)
    return { tool = first and first.name or "?", status = worst, label = label, labels = labels,
      observations = observations, text = options.respond(observations, action.calls),
      changes = changed, workspace = artefact, verified = self.verified[artefact],
      polling = first and first.name == "BashOutput" or false, seconds = sched.now() - begin }
  end
  function self.candidate()
    local made = candidate(workspace)
    for path in pairs(made) do
      if path:match("%.cpp$") or path:match("%.cu$") then
        return made
      end
    end
  end
  --- Ends what waits for requests; the workspace may be closed then.
  function self.close()
    if server then
      server:cancel()
    end
  end
  return self
end

return environment
