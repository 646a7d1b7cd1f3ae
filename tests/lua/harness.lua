-- What Lua specs use. A spec returns a table of functions, one per behaviour, each run as a task in a host of its own.
local sched = require "khost.sched"

local harness = {}

local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for key, item in pairs(value) do parts[#parts + 1] = tostring(key) .. " = " .. show(item) end
  table.sort(parts)
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, item in pairs(a) do
    if not same(item, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

-- Equal by value, tables compared deeply.
function harness.expect(got, expected)
  if not same(got, expected) then
    error(("expected %s, got %s"):format(show(expected), show(got)), 2)
  end
end

function harness.is_true(condition, what)
  if not condition then error(what or "expected a true value", 2) end
end

-- fn must raise an error that contains the text; the message is returned.
function harness.raises(text, fn, ...)
  local ok, message = pcall(fn, ...)
  if ok then error(("expected an error with '%s', but nothing was raised"):format(text), 2) end
  if not tostring(message):find(text, 1, true) then
    error(("expected an error with '%s', got: %s"):format(text, tostring(message)), 2)
  end
  return message
end

-- Waits until the condition holds.
function harness.eventually(condition, seconds)
  local deadline = sched.now() + (seconds or 5)
  while not condition() do
    if sched.now() > deadline then error("the condition did not become true", 2) end
    sched.sleep(0.01)
  end
end

-- For the test program.
function harness.names(module)
  local names = {}
  for name, value in pairs(require(module)) do
    if type(value) == "function" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- What the spec that ran last raised, or nil; the test program repeats it where it counts the failures.
function harness.failure() return harness.raised end

function harness.prepare(module, name)
  local spec = require(module)[name]
  return function()
    local ok, raised = xpcall(spec, function(message)
      harness.raised = tostring(message)
      return type(message) == "string" and debug.traceback(message, 2) or message
    end)
    if not ok then error(raised, 0) end
  end
end

return harness
