-- The only way from Lua to a judge. A client is one judge process opened with the merged configuration (khost.toml, the
-- preset, --set): jobs and limits of the process; target, tolerance, rules and threads of requests that name none. In
-- training it judges each distinct candidate of a task once.

local checking = require "suites.checking"
local config = require "khost.config"
local fs = require "khost.fs"
local judge = require "khost.judge"
local log = require "khost.log"
local machine = require "khost.machine"
local sched = require "khost.sched"
local verdicts = require "judge.verdict"

local client = {}

local Client = {}
Client.__index = Client

local TRIES = 2

-- What an "evaluate", a "verify" or a "profile" takes from the configuration when the request does not say it.
local JUDGED = { evaluate = true, verify = true, profile = true }

---@class (exact) JudgeOptions
---@field jobs? integer         requests worked on at once; 0: as many as there are cores
---@field target? "cpu"|"cuda"
---@field tolerance? string     "calibrated", "paper" or "strict"
---@field rules? "own"|"mixed"
---@field threads? integer      of a candidate and its baselines

--- How many requests a judge works on at once, as a number of workers.
---@param jobs? integer   0: as many as there are cores; [judge] jobs of khost.toml when absent
---@return integer
function client.jobs(jobs)
  jobs = jobs or config.plain(assert(config.load {})).judge.jobs
  return jobs ~= 0 and jobs or machine.facts().cores or 1
end

--- Opens a judge.
---@param settings table|nil     a merged configuration with [machine], [judge] and [limits]; nil: khost.toml alone
---@param options? JudgeOptions  instead of the configuration's
---@return table|nil client, string? message, string? code
function client.open(settings, options)
  local given = settings
  if not given then
    local loaded, problem = config.load {}
    if not loaded then
      return nil, problem, "bad_input"
    end
    given = config.plain(loaded)
  end
  options = options or {}
  local function start(jobs)
    return judge.open { jobs = jobs, limits = { memory_mb = given.limits.memory_mb,
      processes = given.limits.processes, tmp_mb = given.limits.tmp_mb } }
  end
  local process, message, code = start(options.jobs or given.judge.jobs)
  if not process then
    return nil, message, code
  end
  return client.over(process, { target = options.target or given.machine.target,
    tolerance = options.tolerance or given.judge.tolerance, rules = options.rules or given.judge.rules,
    threads = options.threads or given.judge.threads },
    function() return start(1) end)
end

--- A client over what answers like a judge process: `request(self, kind, body)` and `close(self)`.
---@param process table
---@param options {target?: string, tolerance?: string, rules?: string, threads?: integer}
---@param another? fun(): table|nil   a process of its own for a candidate beside which judges were lost
---@return table
function client.over(process, options, another)
  return setmetatable({ process = process, options = options, another = another, known = {}, failed = {}, asked = 0,
    reused = 0, seconds = 0, walls = {} }, Client)
end

--- One request as `khost.Judge:request` takes it. Target, tolerance, rules and threads of the client complete a request
--- that judges a candidate.
---@async
---@param kind string
---@param body table
---@return table|nil answer, string? message, string? code
function Client:request(kind, body)
  if JUDGED[kind] then
    local whole = {}
    for field, value in pairs(self.options) do
      whole[field] = value
    end
    for field, value in pairs(body) do
      whole[field] = value
    end
    body = whole
  end
  local answer, message, code = self.process:request(kind, body)
  for step, seconds in pairs(answer and JUDGED[kind] and answer.wall_s or {}) do
    self.walls[step] = (self.walls[step] or 0) + seconds
  end
  return answer, message, code
end

--- A hash of a candidate's files: the same text in the same places.
---@param files table<string, string>
---@return string
function client.artefact(files)
  local paths, parts = {}, {}
  for path in pairs(files) do
    paths[#paths + 1] = path
  end
  table.sort(paths)
  for _, path in ipairs(paths) do
    parts[#parts + 1] = ("%d %s %d %s"):format(#path, path, #files[path], files[path])
  end
  return fs.sha256(table.concat(parts, "\n"))
end

--- A verdict that needs no judge: nothing was handed in.
---@param labels? string[]   what was wrong with the answers that could not be read, in their order: the first is the
---                          reason's detail, the others follow it
---@return table
function client.nothing(labels)
  local unreadable = labels and #labels > 0
  return verdicts.blank("build_failed", "build", unreadable and "unparsable" or "no_files",
    unreadable and table.concat(labels, ", ") or "")
end

-- A candidate beside which the judge was lost each time goes before a judge of its own, so that no other candidate can
-- be the cause. Lost there twice, it is the candidate that ends judges.
local function ask_alone(self, body)
  local process = self.another and self.another()
  if not process then
    return verdicts.blank("void", "task", "judge_lost", "it was lost, and none of its own could be started")
  end
  local alone = client.over(process, self.options)
  local verdict, message, code
  for _ = 1, TRIES do
    verdict, message, code = alone:request("evaluate", body)
    if verdict or code ~= "gone" then
      break
    end
  end
  alone:close()
  if not verdict and code == "gone" then
    return verdicts.blank("crash", "verify", "exit",
      ("a judge of its own was lost %d times while it judged this candidate: %s"):format(TRIES, message))
  end
  return verdict or verdicts.blank("void", "task", "judge_lost", message)
end

local function ask(self, task, files, measure, rules)
  local cache = task.compile_cache and measure and fs.read(task.compile_cache) or nil
  local body = { task = { source = task.source, name = task.name, compile_cache = cache }, files = files,
    measure = measure, rules = rules }
  local lost, why = 0, nil
  for attempt = 1, TRIES do
    local verdict, message, code = self:request("evaluate", body)
    lost = lost + (code == "gone" and 1 or 0)
    if verdict then
      return verdict
    end
    log.warn("judge_failed", { task = task.name, attempt = attempt, message = message, code = code })
    if code == "bad_task" then
      return verdicts.blank("bad_task", "task", "bad_task", message)
    elseif tostring(code):find("^turn_") then  -- it never came to the judge, and would wait for nothing again
      return verdicts.blank("void", "task", "judge_lost", message)
    end
    why = message
  end
  return lost == TRIES and ask_alone(self, body) or verdicts.blank("void", "task", "judge_lost", why)
end

--- One verdict. `reuse`: an identical candidate of the same task is judged once and the verdict given again, marked
--- with `reused = true`. A word reuses those alone that were asked for with the same word: an evaluation uses none of
--- training's.
---@async
---@param task {id: string, source: string, name?: string}
---@param files table<string, string>|nil
---@param options {measure: boolean, reuse?: boolean|string, rules?: "own"|"mixed"}   rules: instead of the client's
---@return table
function Client:verdict(task, files, options)
  if not files or not next(files) then
    return client.nothing()
  end
  local artefact = client.artefact(files)
  local rules = options.rules or self.options.rules or "own"
  local key_of_failures = ("%s %s %s %s"):format(tostring(options.reuse), task.id, artefact, rules)
  local key = ("%s %s"):format(key_of_failures, tostring(options.measure))
  if options.reuse then
    -- What failed without a clock fails with one.
    local known = self.known[key] or self.failed[key_of_failures]
    while known == "asked" do
      sched.sleep(0.01)
      known = self.known[key]
    end
    if known then
      self.reused = self.reused + 1
      local copy = {}
      for field, value in pairs(known) do
        copy[field] = value
      end
      copy.reused = true
      return copy
    end
    self.known[key] = "asked"
  end
  local begin = sched.now()
  local ok, verdict = pcall(ask, self, task, files, options.measure, options.rules)
  if not ok then
    self.known[key] = nil
    error(verdict, 0)
  end
  self.asked, self.seconds = self.asked + 1, self.seconds + sched.now() - begin
  verdict.evidence.artefact_hash = verdict.evidence.artefact_hash or artefact
  verdict.rules = verdict.rules or rules
  if options.reuse then
    local fault_of_ours = verdicts.is_void(verdict)
    self.known[key] = not fault_of_ours and verdict or nil
    if not verdicts.passed(verdict) and not fault_of_ours then
      self.failed[key_of_failures] = verdict
    end
  end
  return verdict
end

--- What an agent may know about its candidate, from inputs of its own that no verdict uses: `text` for it to read, and
--- the fields of a verdict without `faster`. Its times are never those of a verdict. A repeated "verify" of the same
--- candidate is answered from memory, a "profile" never.
---@async
---@param kind "verify"|"profile"
---@param task {id: string, source: string}
---@param files table<string, string>
---@param how? {kernels: boolean}   false: a profile without kernel tables, where only the times are wanted
---@return table|nil answer, string? message, string? code
function Client:feedback(kind, task, files, how)
  local key = ("%s %s feedback"):format(task.id, client.artefact(files))
  if kind == "verify" and self.known[key] then
    return self.known[key]
  end
  local body = { task = { source = task.source, name = task.name }, files = files, kernels = how and how.kernels }
  local answer, message, code
  for _ = 1, TRIES do
    answer, message, code = self:request(kind, body)
    if answer or code ~= "gone" then
      break
    end
  end
  if answer and kind == "verify" and not verdicts.is_void(answer) then
    self.known[key] = answer
  end
  return answer, message, code
end

---@async
---@param task {source: string}
---@return table|nil graph, string? message, string? code
function Client:trace(task)
  return self.process:request("trace", { task = { source = task.source } })
end

--- The health of a task on the client's target (suites.health names what it says): its structure, and one run in eager
--- mode with the time of a call. What takes far longer or far less than `eager_ms` allows is cut short.
---@async
---@param task {source: string}
---@param eager_ms number[]   least and most that is wanted
---@return table facts   as "check" answers; `failure` says what failed, and whether it was the task
function Client:check(task, eager_ms)
  local target = self.options.target or "cpu"
  return checking.worthwhile({ target = target, stages = { "structure", "run" } }, eager_ms, function(options)
    return checking.facts(self, task.source, options)
  end)
end

--- `walls`: seconds of each step of the judge over all its answers; jobs go on side by side.
---@return {asked: integer, reused: integer, seconds: number, walls: table<string, number>}
function Client:counts()
  return { asked = self.asked, reused = self.reused, seconds = self.seconds, walls = self.walls }
end

function Client:close()
  self.process:close()
end

return client
