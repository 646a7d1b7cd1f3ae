-- The text of a Python file as UTF-8, which is what goes to the judge. Python decodes a file by its coding line (PEP
-- 263).

local source_text = {}

-- The first byte that is no UTF-8; nil when all is.
local function first_bad(text)
  local at = 1
  while true do
    at = text:find("[\128-\255]", at)
    if not at then return nil end
    local sequence = text:match("^[\194-\223][\128-\191]", at) or text:match("^[\224-\239][\128-\191][\128-\191]", at)
      or text:match("^[\240-\244][\128-\191][\128-\191][\128-\191]", at)
    if not sequence then return at end
    at = at + #sequence
  end
end

local LATIN = { ["latin-1"] = true, latin1 = true, ["iso-8859-1"] = true, ["iso8859-1"] = true, l1 = true,
  ["8859"] = true,
  cp819 = true, ["iso-latin-1"] = true }

-- The coding that one of the first two lines names, and these lines.
local function coding_of(text)
  local head = text:match("^[^\n]*\n?[^\n]*")
  for line in head:gmatch("[^\n]+") do
    local name = line:match("^[ \t\f]*#.-coding[=:][ \t]*([-_.%w]+)")
    if name then return name:lower():gsub("_", "-"), name end
  end
end

--- Text in UTF-8. A file in Latin-1 that says so is converted, with its coding line; a byte that is neither is a
--- failure that names its line.
---@param bytes string
---@param path string   for messages
---@return string|nil, string? message, string? code
function source_text.decode(bytes, path)
  local bad = first_bad(bytes)
  if not bad then return bytes end
  local line = select(2, bytes:sub(1, bad):gsub("\n", "")) + 1
  local coding, written = coding_of(bytes)
  if not coding then
    return nil, ("%s: line %d is no UTF-8 and the file names no coding: save it as UTF-8, or begin it with "
      .. "'# -*- coding: latin-1 -*-'"):format(path, line), "bad_input"
  elseif not LATIN[coding] then
    return nil, ("%s: line %d is no UTF-8, and files in '%s' are not read: save it as UTF-8"):format(
      path, line, written), "bad_input"
  end
  local text = bytes:gsub("[\128-\255]", function(byte)
    local code = byte:byte()
    return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
  end)
  local from, to = text:find(written, 1, true)
  return text:sub(1, from - 1) .. "utf-8" .. text:sub(to + 1)
end

return source_text
