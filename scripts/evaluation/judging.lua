-- Verdicts for a run: one judge, and in training one judgement for each distinct candidate of a task.

local checking = require "suites.checking"
local fs = require "khost.fs"
local judge = require "khost.judge"
local log = require "khost.log"
local sched = require "khost.sched"
local verdicts = require "judge.verdict"

local judging = {}

local Judging = {}
Judging.__index = Judging

local TRIES = 2

---@param options? {jobs?: integer, tolerance?: string, threads?: integer, target?: "cpu"|"cuda", process?: khost.Judge}   process: one that is open
---@return table|nil, string? message, string? code
function judging.open(options)
  options = options or {}
  local process, message, code = options.process, nil, nil
  if not process then
    process, message, code = judge.open { jobs = options.jobs and options.jobs > 0 and options.jobs or 2 }
  end
  if not process then
    return nil, message, code
  end
  return setmetatable({ process = process, options = options, known = {}, asked = 0, reused = 0, seconds = 0 }, Judging)
end

--- A hash of a candidate's files: the same text in the same places.
---@param files table<string, string>
---@return string
function judging.artefact(files)
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

--- A verdict that needs no judge: nothing was handed in. `labels`: what was wrong with the answers, when none of them
--- could be read.
---@param labels? table<string, integer>
---@return table
function judging.nothing(labels)
  local words = {}
  for label in pairs(labels or {}) do
    words[#words + 1] = label
  end
  table.sort(words)
  local reason = #words > 0 and "unparsable" or "no_files"
  return verdicts.blank("build_failed", "build", reason, table.concat(words, ", "))
end

local function ask(self, task, files, measure)
  local cache = task.compile_cache and measure and fs.read(task.compile_cache) or nil
  local body = { task = { source = task.source, name = task.name, compile_cache = cache }, files = files,
    measure = measure, tolerance = self.options.tolerance, threads = self.options.threads,
    target = self.options.target }
  for attempt = 1, TRIES do
    local verdict, message, code = self.process:request("evaluate", body)
    if verdict then
      return verdict
    end
    log.warn("judge_failed", { task = task.name, attempt = attempt, message = message, code = code })
    if code == "bad_task" then
      return verdicts.blank("bad_task", "task", "bad_task", message)
    end
  end
  return verdicts.blank("void", "task", "judge_lost")
end

--- One verdict. `reuse`: an identical candidate of the same task is judged once and the verdict given again, marked
--- with `reused = true`; never do that in evaluation.
---@async
---@param task {id: string, source: string, name?: string}
---@param files table<string, string>|nil
---@param options {measure: boolean, reuse?: boolean, labels?: table<string, integer>}
---@return table
function Judging:verdict(task, files, options)
  if not files or not next(files) then
    return judging.nothing(options.labels)
  end
  local artefact = judging.artefact(files)
  local key = ("%s %s %s"):format(task.id, artefact, tostring(options.measure))
  if options.reuse then
    -- What failed without a clock fails with one.
    local known = self.known[key] or self.failed and self.failed[task.id .. artefact]
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
  local ok, verdict = pcall(ask, self, task, files, options.measure)
  if not ok then
    self.known[key] = nil
    error(verdict, 0)
  end
  self.asked, self.seconds = self.asked + 1, self.seconds + sched.now() - begin
  verdict.evidence.artefact_hash = verdict.evidence.artefact_hash or artefact
  if options.reuse then
    local fault_of_ours = verdicts.is_void(verdict)
    self.known[key] = not fault_of_ours and verdict or nil
    if not verdicts.passed(verdict) and not fault_of_ours then
      self.failed = self.failed or {}
      self.failed[task.id .. artefact] = verdict
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
function Judging:feedback(kind, task, files, how)
  local key = ("%s %s feedback"):format(task.id, judging.artefact(files))
  if kind == "verify" and self.known[key] then
    return self.known[key]
  end
  local body = { task = { source = task.source, name = task.name }, files = files, tolerance = self.options.tolerance,
    threads = self.options.threads, target = self.options.target, kernels = how and how.kernels }
  local answer, message, code
  for _ = 1, TRIES do
    answer, message, code = self.process:request(kind, body)
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
function Judging:trace(task)
  return self.process:request("trace", { task = { source = task.source } })
end

--- What the filter asks of a task. Its eager time is that of the target: on a GPU the check measures it, alone.
---@async
---@param task {source: string}
---@return table|nil facts, string? message, string? code
function Judging:admit(task)
  local facts, message, code = self.process:request("admit", { task = { source = task.source } })
  if not facts or self.options.target ~= "cuda" then
    return facts, message, code
  end
  local options = { target = "cuda", stages = { "structure", "run" }, timeout_s = checking.DEFAULTS.timeout_s }
  for name, value in pairs(checking.CUDA) do
    options[name] = value
  end
  local checked = checking.facts(self.process, task.source, options)
  if not checked.run or not checked.run.eager_s then
    local failure = checked.failure or { message = checked.run and checked.run.text, code = "bad_task" }
    return nil, failure.message or "the task could not be measured on the GPU", failure.code or "bad_task"
  end
  facts.eager_s = checked.run.eager_s
  return facts
end

---@return {asked: integer, reused: integer, seconds: number}
function Judging:counts()
  return { asked = self.asked, reused = self.reused, seconds = self.seconds }
end

function Judging:close()
  self.process:close()
end

return judging
