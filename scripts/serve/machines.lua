-- What `khost serve` does with judges of other machines: --front takes them, --judge is one.

local args = require "lib.args"
local candidate = require "lib.candidate"
local client = require "judge.client"
local fs = require "khost.fs"
local front = require "serve.front"
local gate = require "serve.gate"
local log = require "khost.log"
local machine = require "khost.machine"
local node = require "serve.node"
local sched = require "khost.sched"
local serve = require "khost.serve"

local machines = {}

machines.SLOTS = 64      -- requests that a front gives out at once, when --jobs says nothing
local WAIT_S = 60        -- that a request waits while no judge is registered
local LEAST_TOKEN = 32   -- characters

local function is_loopback(address)
  return address:find("^127%.") ~= nil or address == "::1" or address == "localhost"
end

local function token_of(options)
  if not options.node_token then
    return nil
  end
  local stat = machine.run({ "stat", "-L", "-c", "%a", options.node_token }, { timeout_s = 10 })
  local mode = stat and stat.code == 0 and stat.output:match("^(%d+)")
  if not mode then
    args.misuse(("--node-token %s: no such file"):format(options.node_token))
  elseif ("00" .. mode):sub(-2) ~= "00" then
    args.misuse(("--node-token %s: others may read it (mode %s); chmod 600 it"):format(options.node_token, mode))
  end
  local token = (fs.read(options.node_token) or ""):match("^%s*(%S+)%s*$")
  if not token or #token < LEAST_TOKEN or token:find("[^%w%-_%.~%+/=]") then
    args.misuse(("--node-token %s: one word of at least %d letters and digits expected, by `openssl rand -hex 32`")
      :format(options.node_token, LEAST_TOKEN))
  end
  return token
end

local function place_of(text)
  local address, port = text:match("^%[(.-)%]:(%d+)$")
  if not address then
    address, port = text:match("^([^:]+):(%d+)$")
  end
  if not address then
    args.misuse(("--front %s: ADDRESS:PORT expected, for example 127.0.0.1:8421"):format(text))
  end
  return address, tonumber(port)
end

--- The judge of a --front: whatever registers there. Nothing without the option.
---@param options table   of the command
---@param settings table
---@return table|nil judge
function machines.judge(options, settings)
  if not options.front then
    return nil
  elseif options.lease < 1 then
    args.misuse(("--lease %g: at least 1 second expected"):format(options.lease))
  end
  local address = place_of(options.front)
  local token = token_of(options)
  if not token and not is_loopback(address) then
    args.misuse(("--front %s: judges register without a token on loopback alone; give --node-token FILE")
      :format(options.front))
  end
  local names = { address:find(":", 1, true) and ("[%s]"):format(address) or address }
  for _, name in ipairs(options.name) do names[#names + 1] = name end
  local taker = front.new { target = settings.machine.target, token = token, hosts = gate.hosts(names),
    lease_s = options.lease, wait_s = WAIT_S }
  local judge = client.over(taker.pool, { target = settings.machine.target, tolerance = settings.judge.tolerance,
    rules = candidate.check_rules(options.rules or settings.judge.rules), threads = settings.judge.threads })
  judge.front = taker
  return judge
end

--- Listens for judges where there is a --front; a function that ends that.
---@param options table
---@param judge table
---@return fun()
function machines.listen(options, judge)
  if not options.front then
    return function() end
  end
  local address, port = place_of(options.front)
  local listener, message = serve.listen { address = address, port = port, connections = 1024,
    peer_connections = 256 }  -- judges behind one address share these; a peer without a token may connect too
  if not listener then args.misuse("--front " .. message) end
  local host = address:find(":", 1, true) and ("[%s]"):format(address) or address
  log.print(("judges register at http://%s:%d"):format(host, listener:port()))
  local taking = sched.spawn(judge.front.serve, judge.front, listener)
  return function()
    listener:close()
    taking:wait()
  end
end

--- Works for the front at --judge until a signal; an exit code.
---@async
---@param options table
---@param settings table
---@param need_jails fun(): boolean
---@return integer
function machines.work(options, settings, need_jails)
  local url = options.judge:gsub("/+$", "")
  if not url:find("^https?://[^/]+") then
    args.misuse(("--judge %s: the URL that a --front prints expected, for example http://127.0.0.1:8421")
      :format(options.judge))
  elseif options.front then
    args.misuse("--front and --judge: a process is one of them")
  end
  local token = token_of(options)
  if not need_jails() then
    return 2
  end
  local judge, why = client.open(settings, { jobs = options.jobs, target = settings.machine.target })
  if not judge then args.misuse(why) end
  local slots = client.jobs(options.jobs or settings.judge.jobs)
  local facts = machine.run({ "uname", "-n" }, { timeout_s = 10 })
  local name = ((facts or {}).output or "judge"):match("%S+") or "judge"
  local worker = node.new { front = url, token = token, name = name, target = settings.machine.target, slots = slots,
    judge = judge.process }
  log.print(("khost judges for %s (%s, %d at once)"):format(url, settings.machine.target, slots))
  local working = sched.spawn(worker.run, worker)
  local stopping = sched.spawn(function()
    serve.interrupted()
    worker:stop()
  end)
  local _, message, code = working:wait()
  stopping:cancel()
  judge:close()
  if code == "failed" then
    fs.eprint(("khost: %s\n"):format(message))
    return 1
  end
  log.print(("%d jobs done"):format(worker.done))
  return 0
end

return machines
