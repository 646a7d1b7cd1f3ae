-- khost skill install DIR: the skill of writing kernels, for agents that read Agent Skills.
local args = require "lib.args"
local candidate = require "lib.candidate"
local log = require "khost.log"
local skill = require "serve.skill"

local OPTIONS = {
  { name = "action", required = true, help = "install" },
  { name = "folder", required = true, help = "where the agent looks for skills, such as .claude/skills" },
  { name = "--target", kind = "text", default = "cpu", help = "cpu or cuda: which skill" },
  { name = "--force", kind = "flag", help = "replace the files of one that is installed" },
}
local ABOUT = { name = "skill", summary = "installs the skill of writing kernels where an agent looks for skills" }

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  if options.action ~= "install" then
    args.misuse(("skill %s: install expected"):format(options.action))
  end
  candidate.check_target(options.target)
  local path, message = skill.install(options.folder, options.target, options.force)
  if not path then args.misuse(message) end
  log.print("installed " .. path)
  return 0
end

return { name = "skill", summary = ABOUT.summary, about = ABOUT, options = OPTIONS, run = run }
