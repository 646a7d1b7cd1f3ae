-- Chat formats by name and by model. A new format is a file in scripts/chat/ and a line here.
--
-- `answers_are_files` of a format: its answers are the candidate's files; else they are calls of tools. A format of
-- calls that has "-brief" behind its name has a short system message (chat.brief): models that were trained here with
-- calls are asked with it.

local brief = require "chat.brief"
local fs = require "khost.fs"

local formats = {}

local GRAPH_TOKEN = "<|task|>"  -- of chat.tiny, whose prompt is a traced graph

local MODULES = { openai = "chat.openai", hermes = "chat.hermes", xml = "chat.xml", bash = "chat.bash",
  tiny = "chat.tiny" }

-- Formats of calls that a model can learn here, and the ending of their short forms.
local LEARNT, BRIEF = { "hermes", "xml" }, "-brief"

local names, briefs = {}, {}
for name in pairs(MODULES) do
  names[#names + 1] = name
end
for _, name in ipairs(LEARNT) do
  names[#names + 1] = name .. BRIEF
end
table.sort(names)

formats.NAMES = table.concat(names, ", ")

--- The format of that name; nil for none.
---@param name string
---@return table|nil
function formats.named(name)
  for _, learnt in ipairs(LEARNT) do
    if name == learnt .. BRIEF then
      briefs[name] = briefs[name] or brief.of(require(MODULES[learnt]))
      return briefs[name]
    end
  end
  return MODULES[name] and require(MODULES[name])
end

--- The format in which a run's model learns to call tools.
---@param name string   prompt.calls of a preset
---@return table
function formats.learnt(name)
  local format = formats.named(name .. BRIEF)
  return format or error(("prompt.calls = \"%s\": %s expected"):format(name, table.concat(LEARNT, " or ")), 0)
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
