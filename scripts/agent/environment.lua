-- What an agent acts on: a workspace in a jail, the judge's word about it, and for tool-calling models the tools.

local judging = require "evaluation.judging"
local sched = require "khost.sched"
local template = require "lib.template"

local environment = {}

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

--- Answers are files: they are written, built and verified, and the observation says what came of it. Every state that
--- was verified is kept in `states`, for the best of an episode.
---@param workspace khost.Workspace
---@param task table
---@param judge table       evaluation.judging
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
    if action.last then
      -- Nobody reads what the verification says: the final verdict will say it.
      self.states[#self.states + 1] = { files = candidate(workspace) }
      return { tool = "files", status = "ok", text = "", seconds = sched.now() - begin }
    end
    local files = candidate(workspace)
    local verdict = judge:verdict(task, files, { measure = false, reuse = options.reuse })
    self.states[#self.states + 1] = { files = files, correct = verdict.correct }
    return { tool = "files", status = verdict.correct and "ok" or "failed", text = options.feedback(verdict),
      seconds = sched.now() - begin }
  end
  function self.candidate()
    return self.wrote and candidate(workspace) or nil
  end
  return self
end

--- Answers are calls of tools.
---@param workspace khost.Workspace
---@param toolset Toolset
---@param options {respond: fun(observations: table[]): string, shell_options?: table}
---@return table
function environment.tools(workspace, toolset, options)
  local context = { workspace = workspace, state = {}, shell_options = options.shell_options }
  local self = { context = context }
  function self.act(action)
    local begin, observations, worst, label = sched.now(), {}, "ok", nil
    for index, call in ipairs(action.calls) do
      local observation = call.name and toolset:call(context, call.name, call.arguments)
        or { status = "invalid", label = call.label, text = call.text or "the call cannot be read" }
      observation.name = call.name or "?"
      observations[index] = observation
      if observation.status ~= "ok" then
        worst, label = observation.status, observation.label
      end
    end
    local first = action.calls[1]
    return { tool = first and first.name or "?", status = worst, label = label, text = options.respond(observations),
      polling = first and first.name == "BashOutput" or false, seconds = sched.now() - begin }
  end
  function self.candidate()
    local files = candidate(workspace)
    for path in pairs(files) do
      if path:match("%.cpp$") or path:match("%.cu$") then
        return files
      end
    end
  end
  return self
end

--- The files of a single-turn answer as a whole candidate.
---@param files table<string, string>
---@return table<string, string>
function environment.single(files)
  return template.with(files)
end

environment.artefact = judging.artefact

return environment
