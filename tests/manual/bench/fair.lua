-- Whether the CPU's baselines pay what a candidate pays: `khost tests/manual/bench/fair.lua`. The plainest loop for `x + 1`,
-- which takes as long as moving its bytes does for anybody, for x of 4 to 128 MiB, and good/broadcast_bias (3 MiB), each
-- once before each of nine judges one after the other. Prints both sides, the median of the speed-ups over eager and
-- how far they are apart. Exit code 1 unless every median of `x + 1` lies within 0.9 to 1.1 and no speed-up of
-- broadcast_bias is more than 10 % off their median. Wants a quiet machine; KHOST_PREBUILT and KHOST_ROOT of an older
-- build show what was before.
local args = require "lib.args"
local fixtures = require "tests.manual.bench.fixtures"
local judge = require "judge.client"
local log = require "khost.log"
local progress = require "khost.progress"

local OPTIONS = {
  { name = "--judges", kind = "number", default = 9, help = "judges, one after the other" },
  { name = "--sizes", kind = "text", default = "4,8,16,32,64,96,128", help = "of x, in MiB; a set holds x and x + 1" },
}
local ABOUT = { name = "fair", summary = "what the CPU's baselines pay beside a plain loop" }
local LOOP, BIAS = "cpu/good/adds_one_to_64_mib", "cpu/good/broadcast_bias"
local ROWS_A_MIB = 64  -- of 4,096 floats
local LEAST, MOST, APART = 0.9, 1.1, 0.1

local function quantile(values, share)
  local sorted = { unpack(values) }
  table.sort(sorted)
  return sorted[1 + math.floor(share * (#sorted - 1) + 0.5)]
end

local function judged(process, row, turn)
  local body = fixtures.request(row.fixture, ("turn %d"):format(turn))
  if row.mib then
    body.task.name = row.name
    fixtures.with_rows(body, row.mib * ROWS_A_MIB)
  end
  local verdict = assert(process:request("evaluate", body))
  assert(verdict.status == "ok", ("%s is %s: %s"):format(row.name, verdict.status, verdict.detail or ""))
  for key, seconds in pairs(verdict.times) do
    row[key] = row[key] or {}
    table.insert(row[key], seconds)
  end
  table.insert(row.speedups, verdict.times.eager_s / verdict.times.candidate_s)
end

-- The largest distance of a value from the median, as a share of the median.
local function apart(values)
  local middle = quantile(values, 0.5)
  return math.max(quantile(values, 1) / middle - 1, 1 - quantile(values, 0) / middle)
end

local function milliseconds(values)
  if not values then
    return "none"
  end
  return ("%.2f (%.2f to %.2f)"):format(quantile(values, 0.5) * 1e3, quantile(values, 0) * 1e3, quantile(values, 1) * 1e3)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local rows, unfair = {}, {}
  for size in options.sizes:gmatch("%d+") do
    rows[#rows + 1] = { name = ("x + 1, %s MiB"):format(size), fixture = LOOP, mib = tonumber(size), speedups = {} }
  end
  rows[#rows + 1] = { name = "broadcast_bias, 3 MiB", fixture = BIAS, speedups = {} }
  local bar = progress.begin("fair", options.judges * #rows)
  for turn = 1, options.judges do
    local process = assert(judge.open(nil, { jobs = 1 }))
    for _, row in ipairs(rows) do
      judged(process, row, turn)
      bar:add(1)
    end
    process:close()
  end
  bar:finish()
  log.print(("%-22s %-24s %-24s %-24s %8s  %s"):format("milliseconds", "candidate", "eager", "compile", "speed-up", "apart"))
  for _, row in ipairs(rows) do
    local middle, off = quantile(row.speedups, 0.5), apart(row.speedups)
    log.print(("%-22s %-24s %-24s %-24s %7.2fx  %.0f %%"):format(row.name, milliseconds(row.candidate_s),
      milliseconds(row.eager_s), milliseconds(row.compile_s), middle, off * 100))
    if row.mib and (middle < LEAST or middle > MOST) or not row.mib and off > APART then
      unfair[#unfair + 1] = row.name
    end
  end
  log.print(#unfair == 0 and "fair" or "unfair: " .. table.concat(unfair, "; "))
  return #unfair == 0 and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
