-- What the specs of the agent's tools share: a workspace with a few files, calls in it, and checks of observations.
local sandbox = require "khost.sandbox"
local t = require "tests.lua.harness"
local tools = require "agent.tools"

local toolkit = {}

toolkit.FILES = {
  ["model.py"] = "class Model:\n  pass\n",
  ["SKILL.md"] = "skill\n",
  ["utils/khost.h"] = "// khost\n",
  ["utils/verification.py"] = "print('fixed')\n",
  ["binding.cpp"] = "// fixed\n",
  ["binding_registry.h"] = "// fixed\n",
  ["kernels/a.cpp"] = "int a;\nint b;\n\tint tab;\nint a2;\n",
  ["model_new.py"] = "",
}

-- fn(call, context, set) in a new workspace; call(name, arguments) gives an observation.
function toolkit.within(fn, options)
  return sandbox.within(nil, function(workspace)
    local set = tools.load()
    local context = { workspace = workspace, shell_options = options and options.shell }
    return fn(function(name, arguments) return set:call(context, name, arguments) end, context, set)
  end, { files = options and options.files or toolkit.FILES })
end

-- Of a Bash command: the observation's text.
function toolkit.bash(call, command, more)
  local arguments = { command = command }
  for key, value in pairs(more or {}) do arguments[key] = value end
  return call("Bash", arguments).text
end

function toolkit.has(observation, part)
  local text = type(observation) == "table" and observation.text or observation
  t.is_true(text:find(part, 1, true) ~= nil, ("expected %q in: %s"):format(part, text))
end

function toolkit.has_not(observation, part)
  local text = type(observation) == "table" and observation.text or observation
  t.is_true(text:find(part, 1, true) == nil, ("did not expect %q in: %s"):format(part, text))
end

function toolkit.ok(observation)
  t.is_true(observation.status == "ok", "expected success, got: " .. tostring(observation.text))
  return observation
end

function toolkit.refused(observation, label)
  t.is_true(observation.status ~= "ok", "expected a refusal, got: " .. tostring(observation.text))
  t.expect(observation.label, label)
  return observation
end

return toolkit
