-- The half of khost.sandbox that is better written in Lua.
local sandbox = ...

local function finish(workspace, ok, ...)
  workspace:close()
  if not ok then
    error((...), 0) -- also cancellation: passed on as it came
  end
  return ...
end

-- Calls fn with a new workspace, which is closed however fn ends.
function sandbox.within(template, fn, options)
  local workspace, message, code = sandbox.workspace(template, options)
  if not workspace then
    return nil, message, code
  end
  return finish(workspace, pcall(fn, workspace))
end

return sandbox
