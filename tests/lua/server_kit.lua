-- Misbehaving servers for specs: tests/servers/*.py as processes of their own, chat completions when none is named.
local fs = require "khost.fs"
local machine = require "khost.machine"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local kit = {}

local started = 0

-- Starts a server (on a port, or on a free one; another program of tests/servers by its name); {base, port, stop()}.
function kit.start(port, program)
  started = started + 1
  local file = ("/tmp/khost-server-%s-%d"):format(fs.sha256(tostring(sched.wall_clock())):sub(1, 12), started)
  local argv = { "/usr/bin/python3", fs.root() .. "/tests/servers/" .. (program or "endpoint.py"), file }
  argv[4] = port and tostring(port) or nil
  local process = sched.spawn(function() return machine.run(argv, { timeout_s = 3600 }) end)
  t.eventually(function() return fs.exists(file) end, 10)
  local server = { port = tonumber(fs.read(file)) }
  fs.remove_tree(file)
  server.base = "http://127.0.0.1:" .. server.port
  function server.stop()
    process:cancel()
    process:wait()
  end
  return server
end

-- fn(server), and the end of the server whatever happens.
function kit.with(fn, program)
  local server = kit.start(nil, program)
  local ok, message = pcall(fn, server)
  server.stop()
  if not ok then error(message, 0) end
end

return kit
