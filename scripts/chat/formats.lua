-- Chat formats by name and by model. A new format is a file in scripts/chat/ and a line here.
--
-- `answers_are_files` of a format: its answers are the candidate's files; else they are calls of tools.

local formats = {}

local MODULES = { openai = "chat.openai", hermes = "chat.hermes", xml = "chat.xml", bash = "chat.bash",
  tiny = "chat.tiny" }

formats.NAMES = "openai, hermes, xml, bash or tiny"

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
  return require(engine:special "<|task|>" and MODULES.tiny or MODULES.hermes)
end

return formats
