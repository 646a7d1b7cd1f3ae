-- Bash: a command in the trajectory's long-lived shell, or in the background.

local tools = require "agent.tools"

local DEFAULT_S = 120
local MOST_MS = 600000
local OUTPUT_BYTES = 30000
local LEAST_S = 1

local function shell_of(context)
  if context.shell then
    return context.shell
  end
  local shell, message, code = context.workspace:shell(context.shell_options or {})
  if not shell then
    return nil, message, code
  end
  context.shell = shell
  return shell
end

local function report(result, timeout_s)
  local lines = {}
  if result.timed_out then
    lines[#lines + 1] = ("killed after the timeout of %g s"):format(timeout_s)
  elseif result.code < 0 then
    lines[#lines + 1] = "killed"
  else
    lines[#lines + 1] = ("exit code %d"):format(result.code)
  end
  lines[1] = ("[%s, %.2f s, in %s]"):format(lines[1], result.wall_s, result.cwd)
  if result.truncated then
    lines[#lines + 1] = "[the middle of the output was left out"
      .. (result.full_path ~= "" and "; all of it: " .. result.full_path or "") .. "]"
  end
  if result.state_lost then
    lines[#lines + 1] = "[the shell died and was replaced: variables and functions are lost]"
  end
  if result.notice ~= "" then
    lines[#lines + 1] = "[" .. result.notice:gsub("\n$", "") .. "]"
  end
  return table.concat(lines, "\n")
end

local function run(context, arguments)
  local shell, message, code = shell_of(context)
  if not shell then
    return nil, message, code
  end
  local usual_s = context.shell_options and context.shell_options.timeout_s or DEFAULT_S
  local timeout_s = math.min(math.max(arguments.timeout or usual_s * 1000, 1), MOST_MS) / 1000
  -- No command outlasts the time of the episode by much.
  timeout_s = math.min(timeout_s, math.max(context.left_s or timeout_s, LEAST_S))
  if arguments.run_in_background then
    local id, why, label = shell:start(arguments.command, { timeout_s = timeout_s })
    if not id then
      return nil, why, label
    end
    return ("started in the background as %s (killed after %g s); BashOutput shows its output, KillBash ends it")
      :format(id, timeout_s)
  end
  local result, why, label = shell:run(arguments.command,
    { timeout_s = timeout_s, output_bytes = context.output_bytes or OUTPUT_BYTES })
  if not result then
    return nil, why, label
  end
  local output = result.output
  if output ~= "" and output:sub(-1) ~= "\n" then
    output = output .. "\n"
  end
  local text = output .. report(result, timeout_s)
  if result.timed_out then
    return nil, text, "timeout"
  end
  return text
end

return tools.define {
  name = "Bash",
  summary = "Runs a bash command. Directory, variables and functions persist between calls; standard input is "
    .. "empty; there is no network. Output, exit code and time come back.",
  parameters = {
    { name = "command", type = "string", required = true, summary = "the command" },
    { name = "timeout", type = "integer", summary = "milliseconds, 120000 when absent, at most 600000" },
    { name = "description", type = "string", summary = "what it does, in five to ten words" },
    { name = "run_in_background", type = "boolean", summary = "return at once and keep it running" },
  },
  run = run,
}
