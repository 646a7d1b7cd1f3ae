-- Text of strangers in HTML and SVG.

local terminal = require "khost.terminal"

local markup = {}

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- A text that may stand in HTML and SVG, in an attribute too: no markup, no control characters and no marks of
--- direction.
---@param text string
---@return string
function markup.escape(text)
  return (terminal.plain(text):gsub("[&<>\"']", ENTITIES))
end

return markup
