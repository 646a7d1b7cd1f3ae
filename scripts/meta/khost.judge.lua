---@meta khost.judge
-- The judge: a process that builds, verifies and times candidates, and answers questions about tasks. One object is
-- one process; it starts with the first request, and again when it died.

local judge = {}

--- What every status means, one row a status: who is at fault, what it counts as, whether a reward may be made of it,
--- the exit code of `khost evaluate`, and a sentence. `require "judge.verdict"` answers questions by it.
---@type {word: string, fault: "nobody"|"candidate"|"task"|"host", counts: "passed"|"failed"|"not_counted", scored: boolean, exit_code: integer, sentence: string}[]
judge.statuses = {}

--- Every reason, the statuses and stages it may come with, and a sentence.
---@type {word: string, statuses: string[], stages: string[], sentence: string}[]
judge.reasons = {}

---@class khost.Judge
local Judge = {}

---@class (exact) khost.Verdict
---@field status "ok"|"wrong"|"build_failed"|"crash"|"timeout"|"oom"|"violation"|"suspect"|"bad_task"|"uninformative"|"void"
---@field stage "task"|"build"|"plan"|"verify"|"time"|"profile"   how far it came
---@field reason string                 a word of `judge.reasons`; "" for ok
---@field detail string                 for a reader
---@field correct boolean               follows from the status; scripts ask judge.verdict instead
---@field speed "measured"|"unresolved"|"none"   unresolved: nothing may be said, and every `faster` is false
---@field speed_reason ""|"short_baseline"|"no_baseline"|"disturbed"|"constant_task"   why it is unresolved
---@field times table<string, number>   candidate_s, eager_s, compile_s
---@field speedup table<string, number> eager, compile; with the candidate's time charged with slack_s
---@field faster table<string, boolean> by more than 5 %, decided at 99 %
---@field slack_s number                the most that a dishonest acknowledgement could gain
---@field evidence table                hashes, seeds, samples, exclusive_s (of the lease), disturbed_windows
---@field wall_s table<string, number>  by step; target cuda: also sets, start, brackets, wait (for the device, in no other part)

--- python: an interpreter with PyTorch (default: KHOST_PYTHON). jobs: requests worked on at the same time (3; 0: as
--- many as there are cores). limits: of a candidate's process, as in khost.toml.
---@param options? { python?: string, jobs?: integer, limits?: {memory_mb?: integer, processes?: integer, tmp_mb?: integer} }
---@return khost.Judge? judge
---@return string? message
---@return string? code
function judge.open(options) end

--- Waits for the answer. Kinds:
--- "evaluate" { task = { source, compile_cache? }, files = { [path] = text }, measure?, tolerance?, rules?, threads?, against?,
--- target? } gives a Verdict.
---   target = "cuda" runs on the NVIDIA GPU instead of the CPU (default "cpu"; also for verify and profile).
---   against: what the time is compared with: "both" (eager and compile, the default), "eager" or "compile" alone, or on
---   target "cpu" "self", the candidate as its own baseline (times.self_s, faster.self). Another word is bad_input.
---   target = "cuda" takes plans (launchers with KHOST_EXPORT) and candidates in Python: model_new.py whose ModelNew runs, with
---   load_inline (KernelBench) or kernels/ and their *_binding.cpp (CUDA-Agent). subject = "plan", "python" or "auto" (the
---   default: launchers make a plan) says which; evidence.subject tells, and evidence.provenance is "in-process" for Python.
---   against = "eager" spares torch.compile, which takes most of a new task's first seconds.
---   compile_cache: what "check" gave as compile.cache (Base64), opened in the compiled baseline's jail and nowhere else;
---   evidence.compile_cache_hits says what it spared. evidence.retried says that a first try was void, evidence.unresolved names baselines too short for the slack,
---   evidence.undecided those of which the last bracket left open whether the candidate is faster (then it is not).
--- "verify", "profile" with the same body give what an agent may know: a Verdict without `faster`, with `text` for the
---   agent to read, `ok`, and `kind`. They work on sets of inputs and weights that no verdict uses; a profile takes the
---   machine for a moment, and its times are never those of a verdict. On target "cuda" a profile of a correct candidate
---   also has kernel tables by CUPTI (`profile`, see khost.profiler; the candidate's is its own word), unless
---   kernels = false.
--- "trace" { task } gives the task's graph.
--- "check" { task, target?, stages, limits, timeout_s?, seed?, worth_s?, cache? } measures a task's health stage by
--- stage
---   ("structure", "run", "again": in a process that started apart, "compile"); gives {structure?, run?, again?, compile?,
---   failure? = {stage, code, message}} (scripts/suites/checking.lua asks it).
--- "crawl" { request = { find = "torch"|"transformers", part? } | { probe = sources }, target?, timeout_s? } finds
--- operators, or tells
---   shapes of task files (scripts/synthesis/library.lua).
--- Failures: bad_task (the task's own error), gone (the judge died), bad_input.
---@async
---@param kind "evaluate"|"verify"|"profile"|"trace"|"check"|"crawl"
---@param body table
---@return table? answer
---@return string? message
---@return string? code
function Judge:request(kind, body) end

--- Ends the process and every jail in it.
function Judge:close() end

return judge
