---@meta khost.profiler
-- Kernel tables and rates of a candidate beside eager PyTorch and torch.compile. CUPTI runs inside each profiled process,
-- so the candidate's table is the candidate's own word: it is for readers, and no verdict and no reward is made of it.
-- Only `times` come from the judge's clock, and these are of visible inputs, never those of a verdict.

local profiler = {}

---@class (exact) khost.ProfiledKernel
---@field kind "kernel"|"copy"|"fill"
---@field name string
---@field launches number               in one call, on average
---@field seconds number                of these launches together, caches cold before the call; median over the calls
---@field share number                  of the side's busy_s
---@field grid? integer[]               of a kernel: blocks
---@field block? integer[]              threads
---@field registers? integer            of a thread
---@field static_shared_bytes? integer  of a block
---@field dynamic_shared_bytes? integer
---@field resident_blocks? integer      that a multiprocessor holds at once, by registers, threads and shared memory
---@field occupancy? number             share of a multiprocessor's threads that they fill
---@field bytes? integer                of copies and fills, in one call

---@class (exact) khost.ProfiledSide
---@field unavailable? string           why there is no table; then nothing else is there
---@field calls integer
---@field launches number               of one call
---@field busy_s number                 sum of the kernels' times
---@field span_s number                 from the first start to the last end
---@field kernels khost.ProfiledKernel[]  the longest first, at most 200
---@field more_kernels integer
---@field dropped integer               records that had no room
---@field malformed integer             records that were none: the process wrote something else there

---@class (exact) khost.ProfiledRates
---@field seconds number                by the judge's clock
---@field bandwidth number              bytes a second: inputs, weights and outputs once
---@field bandwidth_share? number       of a large copy on this device
---@field flop_rate? number             of matrix products, convolutions and attention, as the reference has them
---@field flop_share? table<string, number>  of each ceiling: fma, float32, tf32, float16, bfloat16

---@class (exact) khost.Profile
---@field target "cpu"|"cuda"
---@field ok boolean                    whether the candidate is correct; else status, reason and detail say what is wrong
---@field status string
---@field reason string
---@field detail string
---@field text string                   for a reader, at most 40 lines
---@field times table<string, number>   candidate_s, eager_s, compile_s
---@field speedup table<string, number>
---@field available boolean             whether there is a kernel table of the candidate
---@field why? string                   why there is none: target cpu, not correct, CUPTI missing or refused, …
---@field sides table<string, khost.ProfiledSide>   candidate, eager, compile
---@field rates table<string, khost.ProfiledRates>  likewise
---@field work? {bytes: number, flops: number?}     of one call
---@field ceilings? {bandwidth: number, fma: number, gemm: table<string, number>, gemm_unavailable: string?}  measured here
---@field counters? {allowed: boolean, why: string} hardware counters, and who may read them

--- Verifies and times a candidate on visible inputs and profiles it in a process of its own. `request` is the body of the
--- judge's "profile": task = { source }, files, target ("cpu" unless given), tolerance, threads, against ("eager" leaves
--- torch.compile out); unknown keys raise. On target "cpu" there are times and text, `available` is false.
---@async
---@param judge khost.Judge
---@param request { task: table, files: table<string, string>, target?: "cpu"|"cuda", tolerance?: string, threads?: integer, against?: "eager" }
---@return khost.Profile? profile
---@return string? message
---@return string? code
function profiler.measure(judge, request) end

return profiler
