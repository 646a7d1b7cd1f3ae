-- khost mcp: the judge as tools of a coding agent, over standard input and output (docs/serve.md).
local args = require "lib.args"
local candidate = require "lib.candidate"
local client = require "judge.client"
local config = require "khost.config"
local fs = require "khost.fs"
local mcp_tools = require "serve.mcp_tools"
local serve = require "khost.serve"

local OPTIONS = {
  { name = "--root", kind = "list", help = "folder in which workspaces and tasks lie (else where it was started)" },
  { name = "--target", kind = "text", help = "cpu or cuda (else machine.target of khost.toml)" },
  { name = "--rules", kind = "text", help = "own or mixed (else judge.rules of khost.toml)" },
  { name = "--set", kind = "list", help = "override a key of khost.toml" },
}
local ABOUT = { name = "mcp", summary = "the judge as tools of coding agents (Model Context Protocol)", notes = [[
speaks JSON-RPC on standard input and output until the input ends; docs/serve.md says how agents start it.
exit codes: 0 the input ended; 1 a line was longer than 4 MiB; 2 misuse]] }

local function roots_of(list)
  local roots = {}
  for index, folder in ipairs(#list > 0 and list or { "." }) do
    roots[index] = fs.exists(folder) == "folder" and fs.folder(assert(fs.absolute(folder)))
      or args.misuse(("--root %s: no such folder"):format(folder))
  end
  return roots
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local loaded, problem = config.load { set = options.set }
  if not loaded then args.misuse(problem) end
  local settings = config.plain(loaded)
  local target = options.target or settings.machine.target
  candidate.check_target(target)
  local rules = candidate.check_rules(options.rules or settings.judge.rules)
  local roots, opened = roots_of(options.root), nil
  local server = mcp_tools.server { roots = roots, target = target, judge = function()
    opened = opened or assert(client.open(settings, { target = target, rules = rules }))
    return opened
  end }
  local lines, message = serve.lines()
  if not lines then args.misuse(message) end
  local whole = server:serve(lines)
  if opened then opened:close() end
  return whole and 0 or 1
end

return { name = "mcp", summary = ABOUT.summary, about = ABOUT, options = OPTIONS, run = run }
