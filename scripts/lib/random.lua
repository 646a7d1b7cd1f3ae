-- A small stream of random numbers that is the same on every machine: what must be rebuilt bit by bit (a corpus, a set
-- of tasks) draws from it. It has the methods of khost.Random.

local bit = _G.bit or require "bit"

local random = {}

---@class lib.Random
local Stream = {}
Stream.__index = Stream

-- FNV-1a, so that near keys give unrelated streams.
local function hash(text)
  local h = 0x811c9dc5
  for i = 1, #text do
    h = bit.bxor(h, text:byte(i))
    -- h * 16777619 modulo 2^32 without leaving the exact range of doubles
    h = bit.tobit(bit.lshift(h, 24) + bit.lshift(h, 8) + h * 0x93 % 4294967296)
  end
  return h
end

--- A number in [0, modulus) for a text: for splits that never change.
---@param text string
---@param modulus integer
---@return integer
function random.bucket(text, modulus)
  local stream = random.stream(text)
  return stream:integer(0, modulus - 1)
end

---@param key string|number
---@return lib.Random
function random.stream(key)
  local state = hash(tostring(key))
  if state == 0 then
    state = 1
  end
  local stream = setmetatable({ state = state }, Stream)
  for _ = 1, 4 do
    stream:bits()
  end
  return stream
end

-- xorshift32
function Stream:bits()
  local s = self.state
  s = bit.bxor(s, bit.lshift(s, 13))
  s = bit.bxor(s, bit.rshift(s, 17))
  s = bit.bxor(s, bit.lshift(s, 5))
  self.state = s
  return s % 4294967296
end

--- In [0, 1).
---@return number
function Stream:number()
  return self:bits() / 4294967296
end

--- A whole number, both ends included.
---@param low integer
---@param high integer
---@return integer
function Stream:integer(low, high)
  return low + math.floor(self:number() * (high - low + 1))
end

--- One item of a list.
function Stream:pick(list)
  return list[self:integer(1, #list)]
end

--- For each name one item of its list, in the order of the names.
---@param lists table<string, any[]>
---@return table<string, any>
function Stream:pick_each(lists)
  local names, picked = {}, {}
  for name in pairs(lists) do
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    picked[name] = self:pick(lists[name])
  end
  return picked
end

--- A list in random order; the list itself is left alone.
function Stream:shuffled(list)
  local out = {}
  for i, item in ipairs(list) do
    local at = self:integer(1, i)
    out[i] = out[at]
    out[at] = item
  end
  return out
end

return random
