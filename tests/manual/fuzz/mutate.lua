-- Inputs of fuzz targets: pieces of a grammar and of a corpus put together and broken at random, the same for the same
-- seed. Lua's parsers and tools have no coverage to follow, so the pieces are what carries a target deep.

local mutate = {}

local BYTES = { "\0", "\r", "\n", "\t", "\\", "\"", "'", "`", "{", "}", "[", "]", "<", ">", "/", "\195", "\240\159",
  "\255", "\27[0m", "%s", "%", " " }

local function piece(random, list)
  return list[random:integer(1, #list)]
end

-- Pieces one after the other.
function mutate.assemble(random, pieces, most)
  local parts = {}
  for i = 1, random:integer(1, most) do
    parts[i] = piece(random, pieces)
  end
  return table.concat(parts)
end

-- One change: a byte, a cut, a copy, a swap.
local function change(random, text)
  local n = #text
  local kind = random:integer(1, 6)
  local at = n > 0 and random:integer(1, n) or 1
  if kind == 1 then
    return text:sub(1, at - 1) .. piece(random, BYTES) .. text:sub(at)
  elseif kind == 2 then
    return text:sub(1, at - 1) .. text:sub(math.min(n + 1, at + random:integer(1, 8)))
  elseif kind == 3 then
    local stop = math.min(n, at + random:integer(1, 40))
    return text:sub(1, stop) .. text:sub(at, stop) .. text:sub(stop + 1)
  elseif kind == 4 then
    return text:sub(1, at)
  elseif kind == 5 then
    return text:sub(at)
  end
  return text:sub(1, at - 1) .. string.char(random:integer(0, 255)) .. text:sub(at + 1)
end

--- The text with 0 to `most` changes.
---@param random lib.Random
---@param text string
---@param most integer
---@return string
function mutate.broken(random, text, most)
  for _ = 1, random:integer(0, most) do
    text = change(random, text)
  end
  return text
end

mutate.piece = piece

--- Runs a target until the seconds are over; prints what failed with the input's number, which repeats it.
---@param name string
---@param options {seconds: number, seed: integer, only?: integer}
---@param target fun(random: lib.Random, index: integer)
---@return integer failures
function mutate.run(name, options, target)
  local random = require "lib.random"
  local sched = require "khost.sched"
  local deadline, index, failures = sched.now() + options.seconds, options.only or 0, 0
  repeat
    index = options.only or index + 1
    local ok, message = pcall(target, random.stream(("%s %d %d"):format(name, options.seed, index)), index)
    if not ok then
      if message == sched.CANCELLED then error(message, 0) end
      failures = failures + 1
      print(("%s, input %d (--seed %d --only %d): %s"):format(name, index, options.seed, index, tostring(message)))
    end
    if index % 50 == 0 then
      sched.sleep(0)
    end
  until options.only or sched.now() > deadline or failures >= 20
  print(("%s: %d inputs, %d failures"):format(name, options.only and 1 or index, failures))
  return failures
end

return mutate
