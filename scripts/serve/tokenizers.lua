-- The tokenizers of a service, by the names that they were given at its start: no request names a folder.

local fs = require "khost.fs"
local json = require "khost.json"
local sched = require "khost.sched"

local tokenizers = {}

local Tokenizers = {}
Tokenizers.__index = Tokenizers

-- Every token that ends a generation by the files of a model's folder.
local function ends_of(folder)
  local ends, seen = {}, {}
  for _, name in ipairs { "generation_config.json", "config.json" } do
    local text = fs.read(folder .. "/" .. name)
    local ids = text and (json.decode(text) or {}).eos_token_id
    for _, id in ipairs(type(ids) == "table" and ids or { ids }) do
      if type(id) == "number" and not seen[id] then
        seen[id] = true
        ends[#ends + 1] = id
      end
    end
  end
  return ends
end

local function read(folder)
  local path = folder .. "/tokenizer.json"
  if fs.exists(path) ~= "file" then
    return nil, ("%s: no such file; a model's folder with its tokenizer.json is needed"):format(path)
  end
  -- Here and not at the top: the tokenizer is a part of the trainer, which a service without episodes does not load.
  local tokenizer, message = require("khost.trainer").tokenizer(path)
  if not tokenizer then
    return nil, message
  end
  return { tokenizer = tokenizer, ends = ends_of(folder), hash = fs.sha256_file(path) }
end

--- Opens tokenizers.
---@async
---@param list string[]   NAME=FOLDER each
---@return table|nil, string? message
function tokenizers.open(list)
  local self = setmetatable({ by_name = {}, names = {} }, Tokenizers)
  for _, entry in ipairs(list) do
    local name, folder = entry:match("^([%w_%-%.]+)=(.+)$")
    if not name then
      return nil, ("%s: NAME=FOLDER expected, a name of letters, digits and _-. and a model's folder"):format(entry)
    end
    local opened, message = read(folder)
    if not opened then
      return nil, message
    end
    self:add(name, opened)
  end
  return self
end

--- Adds one under a name.
---@param name string
---@param opened {tokenizer: khost.Tokenizer, ends: integer[]}
function Tokenizers:add(name, opened)
  if not self.by_name[name] then
    self.names[#self.names + 1] = name
  end
  self.by_name[name] = opened
end

--- One by its name; nil and why.
---@param name any
---@return {tokenizer: khost.Tokenizer, ends: integer[]}|nil, string? message
function Tokenizers:find(name)
  if self.by_name[name] then
    return self.by_name[name]
  elseif #self.names == 0 then
    return nil, "this service knows no tokenizer; it is started with --tokenizer NAME=FOLDER"
  end
  return nil, "no tokenizer of this name; known are " .. table.concat(self.names, ", ")
end

--- An id that nobody can guess: 128 bits of the system's random numbers, in hexadecimal digits.
---@return string
function tokenizers.fresh_id()
  local source = "/proc/sys/kernel/random/uuid"
  local first, second = fs.read(source), fs.read(source)
  return fs.sha256(assert(first) .. assert(second) .. tostring(sched.now())):sub(1, 32)
end

return tokenizers
