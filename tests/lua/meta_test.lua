-- The stubs in scripts/meta are the API reference: what they declare and what the host registers must agree.
local fs = require "khost.fs"
local t = require "tests.lua.harness"

local spec = {}

local function registered(name)
  local names = {}
  for key in pairs(getmetatable(require("khost." .. name)).__index) do names[key] = true end
  return names
end

local function declared(name, text)
  local names = {}
  for line in text:gmatch("[^\n]+") do
    local member = line:match("^function " .. name .. "%.([%w_]+)%(") or line:match("^" .. name .. "%.([%w_]+) =")
    if member then names[member] = true end
  end
  return names
end

function spec.stubs_and_native_modules_agree()
  local wrong, seen = {}, 0
  for _, path in ipairs(fs.glob(fs.root() .. "/scripts/meta/khost.*.lua")) do
    local name = path:match("khost%.([%w_]+)%.lua$")
    local ok, native = pcall(registered, name)
    if ok then
      seen = seen + 1
      local stub = declared(name, assert(fs.read(path)))
      for key in pairs(native) do
        if not stub[key] then wrong[#wrong + 1] = ("khost.%s.%s has no stub"):format(name, key) end
      end
      for key in pairs(stub) do
        if not native[key] then wrong[#wrong + 1] = ("khost.%s.%s is only a stub"):format(name, key) end
      end
    elseif not tostring(native):find("not part of this build", 1, true) then
      error(native, 0)
    end
  end
  table.sort(wrong)
  t.expect(wrong, {})
  t.is_true(seen >= 8, "too few modules were compared")
end

function spec.every_native_module_has_a_stub()
  local header = assert(fs.read(fs.root() .. "/host/modules/modules.h"))
  local missing = {}
  for name in header:gmatch("void open_([%w_]+)%(") do
    local there = pcall(registered, name)
    if there and not fs.exists(("%s/scripts/meta/khost.%s.lua"):format(fs.root(), name)) then
      missing[#missing + 1] = name
    end
  end
  t.expect(missing, {})
end

function spec.native_modules_are_read_only()
  t.raises("read-only", function() fs.read = nil end)
  t.raises("read-only", function() string.format = nil end)
end

return spec
