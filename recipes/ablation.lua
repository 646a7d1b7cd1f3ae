-- The paper's table 2 from one command, and sweeps over any key of a preset: arms with equal budgets over several
-- seeds. Stages that arms have in common are made once. The same command continues a sweep that was interrupted.

local args = require "lib.args"
local arms = require "sweep.arms"
local sweep = require "sweep.sweep"

local ABOUT = { name = "recipes/ablation.lua", summary = "table 2 of the paper, or a sweep over keys of a preset",
  notes = "./khost recipes/ablation.lua --preset smoke --seeds 1,2,3\n"
    .. "./khost recipes/ablation.lua --sweep ppo.actor_lr=1e-6,3e-6 --sweep reward.scheme=milestone,correct" }
local OPTIONS = sweep.options {
  { name = "--arm", kind = "list", help = "only this arm of table 2; may be repeated" },
  { name = "--sweep", kind = "list", help = "KEY=VALUE,VALUE,… instead of table 2; may be repeated" },
}

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local chosen, message = arms.TABLE2, nil
  if #options.sweep > 0 then
    chosen, message = arms.of_sweeps(options.sweep)
  elseif #options.arm > 0 then
    chosen, message = arms.named(options.arm)
  end
  if not chosen then
    args.misuse(message)
  end
  return sweep.run(chosen, options, ABOUT.name)
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
