-- The pages of docs/lua-api: made of the declarations, and current.
local fs = require "khost.fs"
local lua_api = require "manual.lua_api"
local t = require "tests.lua.harness"

local spec = {}

local TEXT = [[
---@meta khost.example
-- Says things.

local example = {}

---@class (exact) khost.Words
---@field count? integer   of words
---@field how "loud"|"low"  said

--- Says it.
---@async
---@param words khost.Words   what is said, and
---                           how
---@param done? fun(a: integer, b: string): boolean   called behind it
---@return true|nil, string? message
function example.say(words, done) end
]]

function spec.a_page_has_the_functions_and_the_types_of_a_module()
  local name, page = lua_api.page(TEXT)
  t.expect(name, "khost.example")
  for _, line in ipairs { "# khost.example", "### example.say(words, done)", "Says it.",
    "| `words` | `khost.Words` | what is said, and how |",
    "| `done?` | `fun(a: integer, b: string): boolean` | called behind it |",
    "Returns `true\\|nil`, `string?` message.", "### khost.Words", "| `count?` | `integer` | of words |",
    "| `how` | `\"loud\"\\|\"low\"` | said |" } do
    t.is_true(page:find(line, 1, true), line .. "\nis missing in\n" .. page)
  end
end

function spec.the_pages_in_docs_are_current()
  local files = {}
  for _, name in ipairs(assert(fs.list(fs.root() .. "/scripts/meta"))) do
    files[name] = assert(fs.read(fs.root() .. "/scripts/meta/" .. name))
  end
  local pages = lua_api.pages(files)
  for name, page in pairs(pages) do
    t.is_true(fs.read(fs.root() .. "/docs/lua-api/" .. name) == page,
      "docs/lua-api/" .. name .. " is not current; run ./khost recipes/lua_api.lua")
  end
  for _, name in ipairs(assert(fs.list(fs.root() .. "/docs/lua-api"))) do
    t.is_true(pages[name], "docs/lua-api/" .. name .. " has no module")
  end
end

return spec
