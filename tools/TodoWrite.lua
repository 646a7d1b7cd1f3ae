-- TodoWrite: the agent's list of steps, replaced as a whole.

local tools = require "agent.tools"

local MARKS = { pending = "[ ]", in_progress = "[>]", completed = "[x]" }

local function run(context, arguments)
  local active = 0
  for _, todo in ipairs(arguments.todos) do
    active = active + (todo.status == "in_progress" and 1 or 0)
  end
  if active > 1 then
    return nil, ("%d steps are in_progress; at most one may be"):format(active), "several_in_progress"
  end
  context.state.todos = arguments.todos
  local lines = {}
  for i, todo in ipairs(arguments.todos) do
    local text = todo.status == "in_progress" and todo.activeForm or todo.content
    lines[i] = ("%s %s"):format(MARKS[todo.status], text)
  end
  return #lines > 0 and table.concat(lines, "\n") or "[the list is empty]"
end

return tools.define {
  name = "TodoWrite",
  summary = "Replaces the list of steps. At most one step is in_progress.",
  parameters = {
    { name = "todos", type = "array", required = true, summary = "the whole list",
      items = { type = "object", fields = {
        { name = "content", type = "string", required = true, summary = "the step, as an order" },
        { name = "status", type = "string", required = true, enum = { "pending", "in_progress", "completed" } },
        { name = "activeForm", type = "string", required = true, summary = "the step, as what is being done" },
      } } },
  },
  run = run,
}
