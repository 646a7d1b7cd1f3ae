-- The judge's clock beside CUPTI, which reads the start and the end of the same kernel inside the candidate's process:
-- `khost tests/manual/bench/clock.lua` (needs a GPU). One candidate of one kernel, with inputs of several lengths;
-- the judge's time is less what its windows take by themselves. CUPTI's reading is the candidate's own word:
-- none of these cheats.
--   --only TEXT   candidates whose name contains this        --tries N   verdicts of each length, the median counts
-- Exit code 1 when one from 100 us to 50 ms is more than 3 % apart, or another one more than that and the slack.
local args = require "lib.args"
local fixtures = require "tests.manual.bench.fixtures"
local judge = require "judge.client"
local log = require "khost.log"
local progress = require "khost.progress"
local sched = require "khost.sched"

local OPTIONS = {
  { name = "--only", kind = "text", help = "candidates whose name contains this" },
  { name = "--tries", kind = "number", default = 3, help = "verdicts of each length; the median counts" },
}
local ABOUT = { name = "clock", summary = "the judge's clock beside CUPTI, on a GPU" }
-- Rows of the inputs: from about 15 us to 30 ms.
local LENGTHS = {
  { "cuda/good/affine_relu", { 1024, 8192, 16384, 65536, 131072 } },
  { "cuda/good/row_energy", { 4096, 16384, 32768, 131072 } },
  { "cuda/good/linear_tiled", { 256, 512, 2048, 16384, 49152 } },
}
local SHORTEST_S, LONGEST_S, MOST_APART = 100e-6, 50e-3, 0.03

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local function request_of(name, rows, mark)
  local body = fixtures.with_rows(fixtures.request(name, mark), rows)
  body.against = "eager"
  return body
end

-- Both readings of one length: {name, rows, judge_s, cupti_s, slack_s}, or the verdict that was not ok.
local function compare(process, name, rows, tries)
  local times, spans, slack = {}, {}, 0
  for i = 1, tries do
    local mark = ("clock %d %d"):format(i, sched.now() * 1e6)
    local verdict = assert(process:request("evaluate", request_of(name, rows, mark)))
    local profile = assert(process:request("profile", request_of(name, rows, mark)))
    local side = profile.profile and profile.profile.sides.candidate
    if verdict.status ~= "ok" or not side or side.unavailable then
      return nil, ("%s, %s: %s"):format(name, verdict.status, side and side.unavailable or
        verdict.detail ~= "" and verdict.detail or profile.text)
    end
    times[i], spans[i], slack = verdict.times.candidate_s, side.span_s, verdict.slack_s
  end
  return { name = name, rows = rows, judge_s = median(times), cupti_s = median(spans), slack_s = slack }
end

local function agrees(one)
  local bound = one.cupti_s >= SHORTEST_S and one.cupti_s <= LONGEST_S
  local most = math.max(bound and 0 or one.slack_s, MOST_APART * one.cupti_s)
  return math.abs(one.judge_s - one.cupti_s) <= most
end

local function line_of(one, good)
  return ("%-22s %6d rows  CUPTI %9.1f us  judge %9.1f us  %+6.1f us %+6.2f %%  slack %.1f us%s"):format(one.name,
    one.rows, one.cupti_s * 1e6, one.judge_s * 1e6, (one.judge_s - one.cupti_s) * 1e6,
    100 * (one.judge_s / one.cupti_s - 1), one.slack_s * 1e6, good and "" or "   <- APART")
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local process, wanted = assert(judge.open(nil, { jobs = 2 })), {}
  for _, entry in ipairs(LENGTHS) do
    for _, rows in ipairs(entry[1]:find(options.only or "", 1, true) and entry[2] or {}) do
      wanted[#wanted + 1] = { name = entry[1], rows = rows }
    end
  end
  if #wanted == 0 then
    args.misuse(("--only %s: no candidate of this name"):format(options.only))
  end
  local bar, bad, rows_out = progress.begin("clock", #wanted), 0, {}
  for _, each in ipairs(wanted) do
    local one, why = compare(process, each.name, each.rows, options.tries)
    local good = one and agrees(one)
    bad = bad + (good and 0 or 1)
    rows_out[#rows_out + 1] = one and line_of(one, good) or why
    bar:add(1, { apart = bad })
  end
  bar:finish()
  process:close()
  for _, line in ipairs(rows_out) do log.print(line) end
  log.print(("%d of %d agree"):format(#wanted - bad, #wanted))
  return bad == 0 and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
