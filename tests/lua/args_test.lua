-- lib.args: command lines.
local args = require "lib.args"
local t = require "tests.lua.harness"

local spec = {}

local function specs()
  return {
    { name = "task", required = true }, { name = "--limit", kind = "number", default = 8 },
    { name = "--set", kind = "list" }, { name = "--dry-run", kind = "flag" },
    { name = "--resume", optional_value = "latest" },
  }
end

function spec.options_positions_and_defaults()
  local got = args.parse(specs(), { "a.py", "--set", "x=1", "--set=y=2", "--dry-run", "--resume" })
  t.expect(got, { task = "a.py", limit = 8, set = { "x=1", "y=2" }, dry_run = true, resume = "latest" })
  t.expect(args.parse(specs(), { "--resume=r1", "--", "-b" }).task, "-b")
end

function spec.usage_shows_defaults_as_they_are_typed()
  local text = args.usage { { name = "run", kind = "list", default = { "latest", "seed 2" }, help = "folders" },
    { name = "--limit", kind = "number", default = 8, help = "tasks" } }
  t.is_true(text:find("folders (default latest seed 2)", 1, true), text)
  t.is_true(text:find("tasks (default 8)", 1, true), text)
end

function spec.misuse_says_what_is_wrong()
  t.raises("did you mean '--limit'", args.parse, specs(), { "a", "--limt", "3" })
  t.raises("a number expected, got 'x'", args.parse, specs(), { "a", "--limit", "x" })
  t.raises("task is missing", args.parse, specs(), {})
  t.raises("unexpected argument 'b'", args.parse, specs(), { "a", "b" })
  local _, stop = pcall(args.parse, specs(), { "--help" })
  t.expect(stop.exit, 0)
end

return spec
