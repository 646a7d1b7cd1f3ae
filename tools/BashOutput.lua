-- BashOutput: what a background command printed since the last look.

local files = require "agent.tool_files"
local sandbox = require "khost.sandbox"
local tools = require "agent.tools"

local MOST_BYTES = 30000

local function run(context, arguments)
  if not context.shell then
    return nil, "no background command was started", "unknown_job"
  end
  local job, message = context.shell:output(arguments.bash_id)
  if not job then
    local known = table.concat(context.shell:jobs(), ", ")
    return nil, message .. (known ~= "" and "; known: " .. known or ""), "unknown_job"
  end
  local output = sandbox.clean(job.output)
  if arguments.filter then
    local kept, why = sandbox.filter_lines(output, arguments.filter)
    if not kept then
      return nil, why, "bad_pattern"
    end
    output = kept
  end
  output = files.shorten(context, output, MOST_BYTES, arguments.bash_id)
  if output ~= "" and output:sub(-1) ~= "\n" then
    output = output .. "\n"
  end
  local lost = job.lost_bytes > 0 and ("[%d bytes were printed faster than read, and lost]\n"):format(job.lost_bytes)
    or ""
  local code = job.code >= 0 and (", exit code %d"):format(job.code) or ""
  return ("%s%s[%s%s, %.1f s]"):format(lost, output, job.status, code, job.wall_s)
end

return tools.define {
  name = "BashOutput",
  summary = "Shows what a background command printed since the last call, its status and exit code.",
  parameters = {
    { name = "bash_id", type = "string", required = true, summary = "what Bash returned" },
    { name = "filter", type = "string", summary = "regular expression: only matching lines; others are dropped" },
  },
  run = run,
}
