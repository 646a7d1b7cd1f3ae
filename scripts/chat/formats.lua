-- Chat formats by name and by model. A new format is a file in scripts/chat/ and a line here.
--
-- `answers_are_files` of a format: its answers are the candidate's files; else they are calls of tools.

local fs = require "khost.fs"

local formats = {}

local GRAPH_TOKEN = "<|task|>"  -- of chat.tiny, whose prompt is a traced graph

local MODULES = { openai = "chat.openai", hermes = "chat.hermes", xml = "chat.xml", bash = "chat.bash",
  tiny = "chat.tiny" }

local names = {}
for name in pairs(MODULES) do
  names[#names + 1] = name
end
table.sort(names)

formats.NAMES = table.concat(names, ", ")

--- The format of that name; nil for none.
---@param name string
---@return table|nil
function formats.named(name)
  return MODULES[name] and require(MODULES[name])
end

--- The format that a model's tokenizer has tokens for: chat.tiny's own, else Hermes' over ChatML.
---@param engine khost.Policy|khost.Tokenizer
---@return table
function formats.of(engine)
  return require(engine:special(GRAPH_TOKEN) and MODULES.tiny or MODULES.hermes)
end

--- Whether a model reads a task as its traced graph instead of its source, by the tokenizer in its folder.
---@param path string   model.path of a preset, relative to khost's root; "" for a base model that is made
---@return boolean
function formats.reads_graphs(path)
  local folder = path:sub(1, 1) == "/" and path or fs.root() .. "/" .. path
  local text = path ~= "" and fs.read(folder .. "/tokenizer.json")
  return path == "" or text ~= nil and text:find(GRAPH_TOKEN, 1, true) ~= nil
end

return formats
