-- Settings tell the truth: every key of khost.toml and of the presets is read by something.
local config = require "khost.config"
local fs = require "khost.fs"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

-- Files that are given a whole section as a table and read its keys there.
local GIVEN = { base = { "scripts/training/base.lua", "recipes/stages/base.lua" },
  ppo = { "scripts/training/ppo.lua", "scripts/training/update.lua" },
  plan = { "scripts/run/plan.lua" }, tasks = { "scripts/synthesis/compose.lua" },
  limits = { "scripts/agent/episode.lua" }, dialogues = { "scripts/training/dialogues.lua" } }
local FOLDERS = { "scripts", "recipes" }

-- Path to code, comments left out.
local function sources(folder, into)
  for _, name in ipairs(assert(fs.list(fs.root() .. "/" .. folder))) do
    local path = folder .. "/" .. name:gsub("/$", "")
    if name:sub(-1) == "/" then
      if path ~= "scripts/meta" then sources(path, into) end
    elseif name:match("%.lua$") then
      local lines = {}
      for line in (assert(fs.read(fs.root() .. "/" .. path)) .. "\n"):gmatch("(.-)\n") do
        lines[#lines + 1] = line:match("^%s*%-%-") and "" or (line:gsub("%s%-%-%s.*$", ""))
      end
      into[path] = table.concat(lines, "\n")
    end
  end
  return into
end

local function mentions(text, key)
  return text:find("[%w_%)%]]%." .. key .. "%f[^%w_]") ~= nil or text:find('"' .. key .. '"', 1, true) ~= nil
end

-- Readers of section.key: files that mention the section, or are given it, and the key.
local function readers(all, section, key)
  local found = {}
  for path, text in pairs(all) do
    local given = not section
    for _, file in ipairs(GIVEN[section] or {}) do given = given or file == path end
    if (given or mentions(text, section)) and mentions(text, key) then found[#found + 1] = path end
  end
  return found
end

local function unread(all, settings)
  local list = {}
  for section, keys in pairs(settings) do
    if type(keys) ~= "table" or #keys > 0 then keys, section = { [section] = keys }, nil end
    for key in pairs(keys) do
      sched.sleep(0)  -- others may run: there are some ten thousand pairs of a key and a file
      if #readers(all, section, key) == 0 then list[#list + 1] = (section and section .. "." or "") .. key end
    end
  end
  table.sort(list)
  return list
end

local function all_sources()
  local all = {}
  for _, folder in ipairs(FOLDERS) do sources(folder, all) end
  return all
end

local spec = {}

function spec.every_key_of_khost_toml_is_read()
  t.expect(unread(all_sources(), config.plain(assert(config.load {}))), {})
end

function spec.every_key_of_every_preset_is_read()
  local all, seen = all_sources(), 0
  for _, name in ipairs(assert(fs.list(fs.root() .. "/recipes/presets"))) do
    local preset = name:match("^(.*)%.toml$")
    if preset then
      seen = seen + 1
      local list = unread(all, config.plain(assert(config.load { preset = preset })))
      t.is_true(#list == 0, ("%s: nothing reads %s"):format(name, table.concat(list, ", ")))
    end
  end
  t.is_true(seen >= 6)
end

function spec.a_key_that_nothing_reads_is_found()
  local all = all_sources()
  t.expect(unread(all, { machine = { no_such_key = 1, target = "cpu" }, ppo = { lambda = 1, isolation = "jail" } }),
    { "machine.no_such_key", "ppo.isolation" })
end

function spec.limits_say_what_a_shell_may()
  local names = {}
  for key in pairs(config.plain(assert(config.load {})).limits) do names[#names + 1] = key end
  table.sort(names)
  t.expect(names, { "command_s", "memory_mb", "processes", "tmp_mb" })
  t.expect(select(2, config.load { set = { "machine.isolation=none" } }) ~= nil, true)
end

return spec
