-- Runs Lua specs with the program that is there, for work on scripts: nothing is built. All specs share one host;
-- `./khost test` gives each a host of its own.

local args = require "lib.args"
local fs = require "khost.fs"
local harness = require "tests.lua.harness"
local log = require "khost.log"
local sched = require "khost.sched"

local FOLDER = "tests/lua"
local ABOUT = { name = "spec", summary = "runs Lua specs without building anything",
  notes = "./khost spec rewards rubric   every tests/lua/*_test.lua whose name has one of these words\n"
    .. "exit codes: 0 all passed, 1 one failed, 2 misuse" }
local OPTIONS = { { name = "word", kind = "list", required = true, help = "part of a spec file's name" } }

local function files_of(words)
  local found = {}
  for _, name in ipairs(assert(fs.list(fs.root() .. "/" .. FOLDER))) do
    local stem = name:match("^(.+)_test%.lua$")
    for _, word in ipairs(stem and words or {}) do
      if stem:find(word, 1, true) then
        found[#found + 1] = stem
        break
      end
    end
  end
  return found
end

-- One behaviour as a task of its own, so that what it leaves running ends with it.
local function failure_of(behaviour)
  local _, failures = sched.wait { sched.spawn(behaviour) }
  return failures[1] and failures[1].message
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local files = files_of(options.word)
  if #files == 0 then
    args.misuse(("no file %s/*_test.lua has one of these words: %s"):format(FOLDER, table.concat(options.word, ", ")))
  end
  local passed, failed = 0, 0
  for _, stem in ipairs(files) do
    local module = FOLDER:gsub("/", ".") .. "." .. stem .. "_test"
    for _, name in ipairs(harness.names(module)) do
      local message = failure_of(harness.prepare(module, name))
      passed, failed = passed + (message and 0 or 1), failed + (message and 1 or 0)
      log.print(("%s %s: %s%s"):format(message and "FAILED" or "ok    ", stem, name:gsub("_", " "),
        message and "\n" .. message or ""))
    end
  end
  log.print(("%d passed, %d failed"):format(passed, failed))
  return failed > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
