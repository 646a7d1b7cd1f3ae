-- Writes docs/lua-api out of scripts/meta, or says whether it is current: `khost recipes/lua_api.lua --check`.

local args = require "lib.args"
local fs = require "khost.fs"
local log = require "khost.log"
local lua_api = require "manual.lua_api"

local OPTIONS = { { name = "--check", kind = "flag", help = "write nothing; exit code 1 when a page is not current" } }
local ABOUT = { name = "recipes/lua_api.lua", summary = "writes docs/lua-api, the pages of what scripts can call" }

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local from, to, files = fs.root() .. "/scripts/meta", fs.root() .. "/docs/lua-api", {}
  for _, name in ipairs(assert(fs.list(from))) do
    files[name] = assert(fs.read(from .. "/" .. name))
  end
  local pages, stale = lua_api.pages(files), {}
  if not options.check then
    assert(fs.mkdirs(to))
  end
  for name, page in pairs(pages) do
    if fs.read(to .. "/" .. name) ~= page then
      stale[#stale + 1] = name
      if not options.check then
        assert(fs.write(to .. "/" .. name, page))
      end
    end
  end
  for _, name in ipairs(fs.list(to) or {}) do
    if not pages[name] then
      stale[#stale + 1] = name
      if not options.check then
        assert(fs.remove_tree(to .. "/" .. name))
      end
    end
  end
  table.sort(stale)
  if #stale == 0 then
    log.print("docs/lua-api is current")
    return 0
  end
  log.print(("%s: %s"):format(options.check and "not current, run ./khost recipes/lua_api.lua" or "written",
    table.concat(stale, ", ")))
  return options.check and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
