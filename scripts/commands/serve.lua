-- khost serve: verdicts and rewards over HTTP, for trainers and agents (docs/serve.md).
local app = require "serve.app"
local args = require "lib.args"
local candidate = require "lib.candidate"
local client = require "judge.client"
local clients = require "serve.clients"
local config = require "khost.config"
local fs = require "khost.fs"
local gate = require "serve.gate"
local machine = require "khost.machine"
local machines = require "serve.machines"
local log = require "khost.log"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local schemes = require "serve.schemes"
local serve = require "khost.serve"
local store = require "khost.store"
local tasks = require "serve.tasks"
local tokenizers = require "serve.tokenizers"

local OPTIONS = {
  { name = "--suite", kind = "list", help = "tasks that requests name by hash: a folder, .py, .jsonl or .parquet" },
  { name = "--tokenizer", kind = "list", help = "NAME=FOLDER of a model: episodes whose tokens a trainer draws" },
  { name = "--root", kind = "text", help = "folder of workspaces: tools for coding agents at /mcp (docs/serve.md)" },
  { name = "--address", kind = "text", default = "127.0.0.1", help = "any other than loopback needs --tokens" },
  { name = "--port", kind = "number", default = 8420, help = "0: a free one, which is printed" },
  { name = "--tokens", kind = "text", help = "file with [clients.NAME] token, rights and quotas (chmod 600)" },
  { name = "--as-root", kind = "flag", help = "serve another address than loopback as root, in a container" },
  { name = "--allow-tasks", kind = "flag", help = "without --tokens: requests may bring texts of tasks" },
  { name = "--name", kind = "list", help = "a name that a Host header may have beside those of loopback" },
  { name = "--reward", kind = "text", default = "milestone", help = "scheme of requests that name none" },
  { name = "--target", kind = "text", help = "cpu or cuda (else machine.target of khost.toml)" },
  { name = "--rules", kind = "text", help = "of requests that name none: own or mixed (else judge.rules)" },
  { name = "--jobs", kind = "number", help = "verdicts at once (else judge.jobs; 0: as many as cores)" },
  { name = "--waiting", kind = "number", default = 256, help = "requests that may wait; more are answered 429" },
  { name = "--episodes", kind = "number", default = 256, help = "open at once; more are answered 429" },
  { name = "--connections", kind = "number", default = 256, help = "open at once; more are answered 503" },
  { name = "--peer-connections", kind = "number", help = "of one address; half of all, on loopback all, when absent" },
  { name = "--drain", kind = "number", default = 60, help = "seconds for what is in work after SIGTERM or Ctrl-C" },
  { name = "--front", kind = "text", help = "ADDRESS:PORT where judges of other machines register; none runs here" },
  { name = "--judge", kind = "text", help = "URL of a --front: work for it, and listen to nobody" },
  { name = "--node-token", kind = "text", help = "file with the token between front and judges (chmod 600)" },
  { name = "--lease", kind = "number", default = 10, help = "seconds until a front takes a silent judge for lost" },
  { name = "--set", kind = "list", help = "override a key of khost.toml" },
}
local ABOUT = { name = "serve", summary = "verdicts and rewards over HTTP, for any trainer or agent", notes = [[
POST /v1/verdict, POST /v1/episodes, /mcp, GET /health, GET /metrics; docs/serve.md has the fields and examples with curl.
exit codes: 0 drained; 1 something was still in work after --drain seconds; 2 misuse; 130 a second Ctrl-C]] }

local function is_loopback(address)
  return address:find("^127%.") ~= nil or address == "::1"
end

-- An address as a URL or a Host header has it.
local function url_host(address)
  return address:find(":", 1, true) and ("[%s]"):format(address) or address
end

local function settings_of(options)
  local loaded, problem = config.load { set = options.set }
  if not loaded then args.misuse(problem) end
  local settings = config.plain(loaded)
  settings.machine.target = options.target or settings.machine.target
  candidate.check_target(settings.machine.target)
  return settings
end

local function clients_of(options)
  if options.tokens then
    if options.allow_tasks then args.misuse("--allow-tasks: with --tokens, the right 'tasks' of a client says so") end
    local found, message = clients.load(options.tokens)
    if not is_loopback(options.address) and machine.facts().user_id == 0 and not options.as_root then
      args.misuse(("--address %s: others than this machine are not served as root; start it as another user, or say "
        .. "--as-root where a container's root is none"):format(options.address))
    end
    return found or args.misuse("--tokens " .. message)
  elseif not is_loopback(options.address) then
    args.misuse(("--address %s: only loopback is served without tokens; give --tokens FILE"):format(options.address))
  end
  return clients.of_loopback(options.allow_tasks == true)
end

-- The folder of --root without links; nil without the option.
local function root_of(options)
  if not options.root then return nil end
  return fs.exists(options.root) == "folder" and fs.absolute(options.root)
    or args.misuse(("--root %s: no such folder"):format(options.root))
end

local function need_jails()
  local ok, message = sandbox.available()
  if not ok then
    fs.eprint(("khost: no jails can be made here, and without them nothing is served: %s\n"):format(tostring(message)))
    return false
  end
  return true
end

-- What token-step episodes need; nil where no tokenizer is registered. Episodes are kept in a run of their own.
local function episodes_of(options, settings)
  if #options.tokenizer == 0 then return nil end
  local registered, message = tokenizers.open(options.tokenizer)
  if not registered then args.misuse("--tokenizer " .. message) end
  local folder = settings.machine.runs
  if folder:sub(1, 1) ~= "/" then folder = fs.root() .. "/" .. folder end
  local run, why = store.create(folder, { name = "serve", recipe = "serve",
    config = { tokenizer = options.tokenizer, target = settings.machine.target, reward = options.reward } })
  if not run then args.misuse("machine.runs: " .. why) end
  return { tokenizers = registered, store = run, most = math.max(1, options.episodes), limits = settings.limits }
end

local function app_of(options, settings)
  local loaded, message = tasks.load(options.suite)
  if not loaded then args.misuse("--suite " .. message) end
  local rewards, problem = schemes.open(options.reward)
  if not rewards then args.misuse("--reward " .. problem) end
  local judge, why = machines.judge(options, settings)
  if not judge then
    judge, why = client.open(settings, { jobs = options.jobs, target = settings.machine.target,
      rules = candidate.check_rules(options.rules or settings.judge.rules) })
  end
  if not judge then args.misuse(why) end
  -- A service goes by its own address too.
  local names = { url_host(options.address) }
  for _, name in ipairs(options.name) do names[#names + 1] = name end
  local slots = options.jobs or options.front and machines.SLOTS or settings.judge.jobs
  if slots == 0 then slots = require("khost.machine").facts().cores or 1 end
  return app.new { judge = judge, clients = clients_of(options), tasks = loaded, schemes = rewards,
    target = settings.machine.target, hosts = gate.hosts(names), slots = math.max(1, slots),
    capacity = options.waiting, artefacts = app.artefacts(), root = root_of(options),
    episodes = episodes_of(options, settings) }, judge
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local settings = settings_of(options)
  clients_of(options)  -- misuse is told before anything starts
  if options.judge then return machines.work(options, settings, need_jails) end
  -- Beside a front only the workspaces of episodes are here.
  if (not options.front or #options.tokenizer > 0) and not need_jails() then return 2 end
  local service, judge = app_of(options, settings)
  local listener, message = serve.listen { address = options.address, port = options.port,
    connections = options.connections, peer_connections = options.peer_connections
      or is_loopback(options.address) and 0 or math.max(1, math.floor(options.connections / 2)) }
  if not listener then args.misuse(message) end
  local episodes = service.options.episodes
  if episodes then
    log.print(("episodes with tokenizers %s go to %s"):format(table.concat(episodes.tokenizers.names, ", "),
      episodes.store:folder()))
  end
  log.print(("khost serves http://%s:%d (%s; %d tasks loaded; %s)"):format(url_host(options.address), listener:port(),
    settings.machine.target, service.options.tasks.count,
    service.options.clients:need_tokens() and #service.options.clients.list .. " clients with tokens"
      or "no tokens, loopback alone"))
  local accepting = sched.spawn(service.serve, service, listener)
  local registered = machines.listen(options, judge)
  serve.interrupted()
  log.print(("draining: %d requests in work, at most %d s"):format(service.in_work, options.drain))
  local whole = service:drain(options.drain)
  accepting:wait()
  registered()
  judge:close()
  if episodes then
    episodes.store:finish "done"
    episodes.store:close()
  end
  log.print(whole and "drained" or "some requests were still in work and were answered 503")
  return whole and 0 or 1
end

return { name = "serve", summary = ABOUT.summary, about = ABOUT, options = OPTIONS, run = run }
