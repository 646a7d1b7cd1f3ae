---@meta khost.judge
-- The judge: a process that builds, verifies and times candidates, and answers questions about tasks. One object is
-- one process; it starts with the first request, and again when it died.

local judge = {}

---@class khost.Judge
local Judge = {}

---@class (exact) khost.Verdict
---@field status "ok"|"build_failed"|"wrong"|"crash"|"timeout"|"oom"|"policy"|"suspect"|"void"|"bad_task"
---@field stage "task"|"build"|"plan"|"verify"|"time"   how far it came
---@field reason string                 a stable word, for metrics
---@field detail string                 for a reader
---@field correct boolean
---@field times table<string, number>   candidate_s, eager_s, compile_s
---@field speedup table<string, number> eager, compile
---@field faster table<string, boolean> by more than 5 %, decided at 99 %
---@field slack_s number                the most that a dishonest acknowledgement could gain
---@field evidence table
---@field wall_s table<string, number>

--- python: an interpreter with PyTorch (default: KHOST_PYTHON). jobs: requests worked on at the same time (3).
---@param options? { python?: string, jobs?: integer }
---@return khost.Judge? judge
---@return string? message
---@return string? code
function judge.open(options) end

--- Waits for the answer. Kinds: "evaluate" { task = { source }, files = { [path] = text }, measure?, tolerance?,
--- threads? } gives a Verdict; "trace" { task } the task's graph; "admit" { task } what the filter asks. Failures:
--- bad_task (the task's own error), gone (the judge died), bad_input.
---@async
---@param kind "evaluate"|"trace"|"admit"
---@param body table
---@return table? answer
---@return string? message
---@return string? code
function Judge:request(kind, body) end

--- Ends the process and every jail in it.
function Judge:close() end

return judge
