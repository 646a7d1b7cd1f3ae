-- Tasks that are the same program: equal after names, numbers, comments, blanks and quotes are taken away.

local fs = require "khost.fs"
local similarity = require "synthesis.similarity"

local duplicates = {}

--- What two programs have in common when they differ in names and numbers only: a hash of the normalised Model.
---@param source string
---@return string
function duplicates.key(source)
  local tokens = similarity.tokens(source)
  for index, token in ipairs(tokens) do
    if token:match("^%d") then
      tokens[index] = "<number>"
    end
  end
  return fs.sha256(table.concat(tokens, " "))
end

--- Marks every task whose program was there before: sets `duplicate_of` to the first one's name.
---@param tasks {name: string, source: string, duplicate_of?: string}[]
---@param first? table<string, string>   names by key of those before; gets those of `tasks`
---@return integer count
function duplicates.mark(tasks, first)
  first = first or {}
  local count = 0
  for _, task in ipairs(tasks) do
    local key = duplicates.key(task.source)
    if first[key] then
      task.duplicate_of, count = first[key], count + 1
    else
      first[key] = task.name
    end
  end
  return count
end

return duplicates
