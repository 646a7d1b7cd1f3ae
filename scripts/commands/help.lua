-- `khost --help`: commands and recipes with a line each, out of their own `summary`.

local fs = require "khost.fs"
local log = require "khost.log"

local HEAD = [[
usage: khost SCRIPT.lua [--preset NAME] [--set KEY=VALUE]...   run a recipe
       khost COMMAND [arguments]                           COMMAND --help says more
]]

-- What the launcher in the clone does by itself, before any script runs.
local LAUNCHER = {
  { "test", "builds and runs the tests; -R NAME runs those whose name contains NAME" },
  { "setup", "installs and builds everything, and runs nothing" },
  { "build", "installs and builds some parts: program serve trainer trainer-cuda judge-cuda tests" },
  { "lint", "checks format and style of what changed" },
}

-- Scripts are read, not run: a recipe may need parts that are not built yet. The last summary of a file is its own.
local function summary_of(path)
  local found
  for text in (fs.read(path) or ""):gmatch 'summary = "([^"\n]*)"' do
    found = text
  end
  return found or ""
end

local function scripts_in(folder)
  local rows = {}
  for _, name in ipairs(fs.list(fs.root() .. "/" .. folder) or {}) do
    if name:match "%.lua$" then
      rows[#rows + 1] = { name, summary_of(("%s/%s/%s"):format(fs.root(), folder, name)) }
    end
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

local function print_rows(title, rows)
  local widest = 0
  for _, row in ipairs(rows) do
    widest = math.max(widest, #row[1])
  end
  log.print("\n" .. title)
  for _, row in ipairs(rows) do
    log.print(("  %-" .. widest .. "s  %s"):format(row[1], row[2]))
  end
end

local function run()
  local commands, recipes = scripts_in "scripts/commands", scripts_in "recipes"
  for _, row in ipairs(commands) do
    row[1] = row[1]:gsub("%.lua$", "")
  end
  for _, row in ipairs(recipes) do
    row[1] = "recipes/" .. row[1]
  end
  log.print((HEAD:gsub("\n$", "")))
  print_rows("commands:", commands)
  print_rows("recipes:", recipes)
  print_rows("of the launcher in a clone:", LAUNCHER)
  return 0
end

return { name = "help", summary = "lists commands and recipes; help COMMAND prints that one's own", run = run }
