-- KillBash: ends a background command and everything it started.

local tools = require "agent.tools"

local function run(context, arguments)
  if not context.shell then
    return nil, "no background command was started", "unknown_job"
  end
  local job, message = context.shell:kill(arguments.shell_id)
  if not job then
    return nil, message, "unknown_job"
  end
  return ("%s: %s after %.1f s"):format(arguments.shell_id, job.status, job.wall_s)
end

return tools.define {
  name = "KillBash",
  summary = "Ends a background command and every process it started.",
  parameters = {
    { name = "shell_id", type = "string", required = true, summary = "what Bash returned" },
  },
  run = run,
}
