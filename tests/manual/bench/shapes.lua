-- What the trainer's benches share: models of known shapes with random weights, on which no rate depends, the options
-- that name a model and where it runs, and the same work in other programs on the same card.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local machine = require "khost.machine"
local sched = require "khost.sched"

local shapes = { card = fs.exists("/dev/nvidiactl") }

-- As their makers' config.json has them.
local KNOWN = {
  ["smollm2-135m"] = { vocabulary = 49152, width = 576, layers = 30, heads = 9, kv_heads = 3, head_width = 64,
    mlp_width = 1536, rope_theta = 1e5 },
  ["qwen2.5-coder-0.5b"] = { vocabulary = 151936, width = 896, layers = 24, heads = 14, kv_heads = 2, head_width = 64,
    mlp_width = 4864, rope_theta = 1e6, qkv_bias = true },
  ["qwen2.5-coder-1.5b"] = { vocabulary = 151936, width = 1536, layers = 28, heads = 12, kv_heads = 2,
    head_width = 128, mlp_width = 8960, rope_theta = 1e6, qkv_bias = true },
}
local NAMES = "smollm2-135m, qwen2.5-coder-0.5b or qwen2.5-coder-1.5b"

--- The shape for trainer.open that the options name.
---@param options table     with `shape`
---@param positions integer
---@return table
function shapes.of(options, positions)
  local known = KNOWN[options.shape] or args.misuse(("--shape %s: %s expected"):format(options.shape, NAMES))
  local shape = { positions = positions }
  for key, value in pairs(known) do
    shape[key] = value
  end
  return shape
end

--- The shared options, followed by a bench's own.
---@param own table[]
---@return table[]
function shapes.options(own)
  local list = {
    { name = "--model", kind = "text", help = "a model folder, instead of a shape with random weights" },
    { name = "--shape", kind = "text", default = "smollm2-135m", help = NAMES },
    { name = "--device", kind = "text", default = shapes.card and "cuda" or "cpu", help = "cpu or cuda" },
    { name = "--dtype", kind = "text", default = shapes.card and "bf16" or "fp32", help = "fp32 or bf16" },
    { name = "--alone", kind = "flag", help = "without the numbers of others" },
  }
  for _, option in ipairs(own) do
    list[#list + 1] = option
  end
  return list
end

---@param values number[]   sorted by this
---@return number
function shapes.median(values)
  table.sort(values)
  return values[math.floor(#values / 2) + 1]
end

--- Trajectories that hold some number of tokens together, each of one length.
---@param tokens integer
---@param length integer
---@return table[]
function shapes.episodes(tokens, length)
  local episodes = {}
  for index = 1, math.max(1, math.floor(tokens / length)) do
    local ids, mask = {}, {}
    for place = 1, length do
      ids[place] = (index * 7919 + place * 104729) % 251
      mask[place] = place > 1 and 1 or 0
    end
    episodes[index] = { tokens = ids, mask = mask, reward = index % 3, group = 1 }
  end
  return episodes
end

--- Median seconds of a call; two calls before are not counted.
---@async
---@param steps integer
---@param fn async fun()
---@return number
function shapes.timed(steps, fn)
  local times = {}
  for step = 1, steps + 2 do
    local begin = sched.now()
    fn()
    if step > 2 or steps < 3 then times[#times + 1] = sched.now() - begin end
  end
  return shapes.median(times)
end

--- What a Python program beside this file prints about the same work; raises its output when it fails.
---@async
---@param name string        of the program
---@param shape table
---@param given table        what it is asked for
---@param timeout_s number
---@return table
function shapes.reference(name, shape, given, timeout_s)
  for key, value in pairs(shape) do
    given[key] = value
  end
  local ran = assert(machine.run({ fs.env("KHOST_PYTHON") or "python3", fs.root() .. "/tests/manual/bench/" .. name,
    json.encode(given) }, { timeout_s = timeout_s, output_bytes = 1e6 }))
  return ran.code == 0 and json.decode(ran.output:match("{[^\n]*}%s*$")) or error(ran.output)
end

return shapes
