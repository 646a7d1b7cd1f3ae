-- What HTTP adds to a verdict: `khost tests/manual/bench/http.lua`. One judge answers a script of this process and, in
-- the same process, a service on loopback whose client is the same script. In turn both ask for the same numbers of
-- distinct verdicts of an RL mix, so many at once that the judge is always busy; then one after the other through HTTP,
-- of which each is timed beside the judge's own part of it.
--   --target cpu|cuda   --tasks 4   of the mix, each with both baselines
--   --mix 40   verdicts a round   --rounds 3   of each side   --waits 32   one after the other   --jobs N
-- Exit code 1 when HTTP's median rate is below 95 % of the other, or the median of what it adds is 10 ms or more.
local app = require "serve.app"
local args = require "lib.args"
local client = require "judge.client"
local clients = require "serve.clients"
local gate = require "serve.gate"
local http = require "khost.http"
local json = require "khost.json"
local log = require "khost.log"
local mix = require "tests.manual.bench.mix"
local progress = require "khost.progress"
local sched = require "khost.sched"
local schemes = require "serve.schemes"
local serve = require "khost.serve"
local tasks = require "serve.tasks"

local OPTIONS = {
  { name = "--target", kind = "text", default = "cpu", help = "cpu or cuda" },
  { name = "--tasks", kind = "number", default = 4, help = "of the mix" },
  { name = "--mix", kind = "number", default = 40, help = "verdicts a round" },
  { name = "--rounds", kind = "number", default = 3, help = "of each side" },
  { name = "--waits", kind = "number", default = 32, help = "verdicts one after the other" },
  { name = "--jobs", kind = "number", default = 2, help = "verdicts at once" },
}
local ABOUT = { name = "http", summary = "what HTTP adds to a verdict" }
local LEAST_RATE, MOST_ADDED_S = 0.95, 0.010

local function median(values)
  table.sort(values)
  local middle = #values / 2
  return #values == 0 and 0 or (values[math.floor(middle + 0.5)] + values[math.floor(middle + 1)]) / 2
end

-- Sees how long the judge's process worked on the last request.
local function timed(process)
  local seen = { process = process, last_s = 0 }
  function seen:request(kind, body)
    local begin = sched.now()
    local answer, message, code = self.process:request(kind, body)
    self.last_s = sched.now() - begin
    return answer, message, code
  end
  function seen:close() self.process:close() end
  return seen
end

local function served(judge, target, jobs, fn)
  local service = app.new { judge = judge, tasks = assert(tasks.load {}), schemes = assert(schemes.open "milestone"),
    target = target, clients = clients.of_loopback(true), hosts = gate.hosts {}, slots = jobs, capacity = 256 }
  local listener = assert(serve.listen {})
  local accepting = sched.spawn(service.serve, service, listener)
  local ok, message = pcall(fn, ("http://127.0.0.1:%d/v1/verdict"):format(listener:port()))
  service:drain(0)
  accepting:wait()
  if not ok then error(message, 0) end
end

-- A verdict through the service.
local function posted(url, body)
  local got = assert(http.request { url = url, method = "POST",
    body = json.encode { task = { source = body.task.source, name = body.task.name }, files = body.files } })
  local answer = json.decode(got.body)
  assert(got.status == 200, ("%d %s"):format(got.status, got.body))
  return answer.verdict
end

-- Verdicts an hour of one round, and how many had which status.
local function rate(label, ask, chosen, listed)
  local bodies, statuses, bar = {}, {}, progress.begin(label, chosen.mix)
  for i = 1, chosen.mix do bodies[i] = mix.body(i, listed, chosen.target) end
  local begin = sched.now()
  sched.map(bodies, function(body)
    local status = ask(body).status
    statuses[status] = (statuses[status] or 0) + 1
    bar:add(1)
  end, { limit = chosen.jobs + 1, on_failure = "raise" })
  bar:finish()
  return 3600 * chosen.mix / (sched.now() - begin), statuses
end

local function compared(judge, seen, url, chosen)
  local listed, opened = {}, progress.begin("new tasks", chosen.tasks)
  for i, task in ipairs(mix.tasks(chosen.target, chosen.tasks)) do
    if i <= chosen.tasks then listed[i] = task end
  end
  local asks = { direct = function(body) return assert(judge:request("evaluate", body)) end,
    http = function(body) return posted(url, body) end }
  sched.map(listed, function(task)
    asks.direct(mix.request(task))
    opened:add(1)
  end, { limit = chosen.jobs, on_failure = "raise" })
  opened:finish()
  local rates = { direct = {}, http = {} }
  for round = 1, chosen.rounds do
    -- Neither side is always the first.
    for _, side in ipairs(round % 2 == 1 and { "direct", "http" } or { "http", "direct" }) do
      local an_hour, statuses = rate(side, asks[side], chosen, listed)
      rates[side][round] = an_hour
      log.print(("%-7s %d distinct over %d tasks   %.0f verdicts an hour (%s)"):format(side, chosen.mix, #listed,
        an_hour, mix.told(statuses)))
    end
  end
  local added = {}
  for i = 1, chosen.waits do
    local body, begin = mix.body(i, listed, chosen.target), sched.now()
    posted(url, body)
    added[i] = sched.now() - begin - seen.last_s
  end
  return median(rates.http) / median(rates.direct), added
end

local function run(list)
  local chosen = args.parse(OPTIONS, list, ABOUT)
  local judge = assert(client.open(nil, { jobs = chosen.jobs, target = chosen.target }))
  local seen, share, added = timed(judge.process), nil, nil
  judge.process = seen
  served(judge, chosen.target, chosen.jobs, function(url) share, added = compared(judge, seen, url, chosen) end)
  judge:close()
  local middle = median(added)
  log.print(("through HTTP        %.3f of the direct rate (medians of %d rounds)"):format(share, chosen.rounds))
  log.print(("HTTP adds           median %.2f ms, most %.2f ms of %d verdicts one after the other"):format(middle * 1e3,
    (added[#added] or 0) * 1e3, #added))
  return share >= LEAST_RATE and middle < MOST_ADDED_S and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
