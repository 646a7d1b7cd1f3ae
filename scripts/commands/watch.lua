-- `khost watch RUN...`: the report of a run that is going on, kept up to date.

local args = require "lib.args"
local fs = require "khost.fs"
local live = require "report.live"
local log = require "khost.log"
local report = require "commands.report"

local OPTIONS = {
  { name = "run", kind = "list", default = { "latest" }, help = "as for khost report" },
  { name = "--port", kind = "number", default = 0, help = "of 127.0.0.1; 0: a free one" },
  { name = "--every", kind = "number", default = 5, help = "seconds between two looks at the store" },
  { name = "--file", kind = "text", help = "write the page to this file again and again instead of serving it; the "
    .. "opened file loads itself anew" },
}
local ABOUT = { name = "watch", summary = "serve the report of a running run on loopback", notes = [[
The page is served on 127.0.0.1 to this machine alone and read from the store, so any process may write the run.
Ctrl-C ends it. With --file the command ends by itself when the run does.]] }

local function write_file(path, stores, every_s)
  log.print(("writing %s every %g s; open it in a browser"):format(path, every_s))
  local ok, message = live.open(stores, every_s):write(path)
  if not ok then
    fs.eprint("watch: " .. message .. "\n")
    return 1
  end
  log.print("the run has ended; the page is " .. path)
  return 0
end

local function run(arguments)
  local options = args.parse(OPTIONS, arguments, ABOUT)
  if options.every < 0.5 then
    args.misuse(("--every: at least 0.5 s expected, got %g"):format(options.every))
  end
  local stores = report.open_all(options.run)
  if options.file then
    return write_file(options.file, stores, options.every)
  end
  local serve = require "khost.serve"
  local listener, message = serve.listen { port = options.port }
  if not listener then
    fs.eprint(("watch: port %d of 127.0.0.1: %s; choose another one with --port, or a file with --file\n"):format(
      options.port, message))
    return 1
  end
  log.print(("http://127.0.0.1:%d/"):format(listener:port()))
  live.open(stores, options.every):serve(listener)
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, run = run }
