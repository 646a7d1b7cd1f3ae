-- The arms of a sweep: what each changes in the preset. The paper's table 2 leaves one part out in each arm; `--sweep`
-- makes an arm of every combination of values.

local arms = {}

---@class (exact) Arm
---@field name string
---@field set string[]   overrides of the preset, "a.b=c"

--- Table 2 of the paper. Every arm plays as many episodes as the full pipeline and is evaluated like it, under the
--- agent loop. Without fine-tuning, PPO of the agent begins with the single-turn policy; without value pretraining, its
--- critic begins as the actor under a new value head.
---@type Arm[]
arms.TABLE2 = {
  { name = "full", set = {} },
  { name = "no_agent_loop", set = { "collect.turns=1", "agentic.turns=1" } },
  { name = "no_robust_reward", set = { "reward.scheme=speedup" } },
  { name = "no_rft", set = { "rft.epochs=0" } },
  { name = "no_value_pretraining", set = { "value.epochs=0" } },
}

-- The parts of "1,2,[3,4]": commas inside of brackets or quotes do not separate.
local function values_of(text)
  local list, depth, quoted, begin = {}, 0, false, 1
  for at = 1, #text do
    local byte = text:sub(at, at)
    if byte == '"' then
      quoted = not quoted
    elseif not quoted and byte == "[" then
      depth = depth + 1
    elseif not quoted and byte == "]" then
      depth = depth - 1
    elseif byte == "," and depth == 0 and not quoted then
      list[#list + 1], begin = text:sub(begin, at - 1), at + 1
    end
  end
  list[#list + 1] = text:sub(begin)
  return list
end

--- An arm for every combination of the values of "a.b=1,2" and "c.d=x,y".
---@param sweeps string[]
---@return Arm[]|nil arms, string? message
function arms.of_sweeps(sweeps)
  local list = { { name = "", set = {} } }
  for _, sweep in ipairs(sweeps) do
    local key, text = sweep:match("^([%w_.]+)=(.+)$")
    if not key then
      return nil, ("--sweep %s: expected KEY=VALUE,VALUE,…, for example ppo.actor_lr=1e-6,3e-6"):format(sweep)
    end
    local longer = {}
    for _, arm in ipairs(list) do
      for _, value in ipairs(values_of(text)) do
        local one = ("%s=%s"):format(key, value)
        local set = { unpack(arm.set) }
        set[#set + 1] = one
        longer[#longer + 1] = { name = arm.name == "" and one or arm.name .. " " .. one, set = set }
      end
    end
    list = longer
  end
  return list
end

--- The arms of these names, in table 2's order.
---@param names string[]
---@return Arm[]|nil arms, string? message
function arms.named(names)
  local wanted, known, list = {}, {}, {}
  for _, name in ipairs(names) do
    wanted[name] = true
  end
  for _, arm in ipairs(arms.TABLE2) do
    known[#known + 1] = arm.name
    list[#list + 1] = wanted[arm.name] and arm or nil
    wanted[arm.name] = nil
  end
  local unknown = next(wanted)
  if unknown then
    return nil, ("--arm %s: there is no such arm; known are %s"):format(unknown, table.concat(known, ", "))
  end
  return list
end

return arms
