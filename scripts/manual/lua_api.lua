-- Renders the annotated declarations of scripts/meta as pages of Markdown: one page a module, in the order of the
-- declarations, so that docs/lua-api says what an editor shows and nothing else.

local lua_api = {}

local KEYS = { param = true, ["return"] = true, field = true, class = true, async = true, alias = true, type = true,
  generic = true }

-- A type ends at the first blank outside of brackets, strings and function types: "fun(a: b): c[]  what it is".
local function split_type(text)
  local depth, at = 0, 1
  while at <= #text do
    local c = text:sub(at, at)
    if c:find("[%(%[{<]") then
      depth = depth + 1
    elseif c:find("[%)%]}>]") then
      depth = depth - 1
    elseif c == " " and depth == 0 and not text:sub(1, at - 1):find("[:,|]$") then
      return text:sub(1, at - 1), (text:sub(at):gsub("^%s+", ""))
    end
    at = at + 1
  end
  return text, ""
end

-- Names, types and remarks of `---@return a, b? c`: of each value the type, and its name where it has one.
local function split_returns(text)
  local list, depth, from = {}, 0, 1
  for at = 1, #text + 1 do
    local c = text:sub(at, at)
    if c:find("^[%(%[{<]") then
      depth = depth + 1
    elseif c:find("^[%)%]}>]") then
      depth = depth - 1
    elseif (c == "," or c == "") and depth == 0 then
      list[#list + 1] = text:sub(from, at - 1):match("^%s*(.-)%s*$")
      from = at + 1
    end
  end
  return list
end

local function code(text)
  return "`" .. text:gsub("|", "\\|") .. "`"
end

local function cell(text)
  return (text:gsub("|", "\\|"))
end

-- The lines of a page as blocks: comments and annotations, with the declaration that they stand above.
local function blocks_of(text)
  local blocks, block = {}, { notes = {}, marks = {} }
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local key, rest = line:match("^%-%-%-@(%w+)%s?(.*)$")
    local note = not key and line:match("^%-%-%-?%s?(.*)$")
    if key and KEYS[key] then
      block.marks[#block.marks + 1] = { key = key, text = rest }
    elseif note then
      local last = block.marks[#block.marks]
      if last and line:find("^%-%-%-%s") then
        last.text = last.text .. " " .. note:match("^%s*(.*)$")  -- the remark goes on
      else
        block.notes[#block.notes + 1] = note
      end
    else
      block.declaration = line ~= "" and line or nil
      if #block.notes + #block.marks > 0 or block.declaration then
        blocks[#blocks + 1] = block
      end
      block = { notes = {}, marks = {} }
    end
  end
  return blocks
end

local function marks(block, key)
  local list = {}
  for _, mark in ipairs(block.marks) do
    list[#list + 1] = mark.key == key and mark.text or nil
  end
  return list
end

local function rows(list, lines, head)
  if #list == 0 then
    return
  end
  lines[#lines + 1] = ("\n| %s | type | |\n|---|---|---|"):format(head)
  for _, text in ipairs(list) do
    local name, rest = text:match("^([%w_%.%[%]]+%??)%s+(.*)$")
    local kind, remark = split_type(rest or "")
    lines[#lines + 1] = ("| %s | %s | %s |"):format(code(name or text), code(kind), cell(remark))
  end
end

local function add_notes(block, lines)
  if #block.notes > 0 then
    lines[#lines + 1] = "\n" .. table.concat(block.notes, "\n")
  end
end

local function add_class(block, name, lines)
  lines[#lines + 1] = "\n### " .. name
  add_notes(block, lines)
  rows(marks(block, "field"), lines, "field")
end

local function add_function(block, name, arguments, lines)
  lines[#lines + 1] = ("\n### %s(%s)"):format(name, arguments)
  add_notes(block, lines)
  if #marks(block, "async") > 0 then
    lines[#lines + 1] = "\nOther tasks run while it waits."
  end
  rows(marks(block, "param"), lines, "argument")
  local returns = {}
  for _, text in ipairs(marks(block, "return")) do
    for _, one in ipairs(split_returns(text)) do
      local kind, label = split_type(one)
      returns[#returns + 1] = label ~= "" and ("%s %s"):format(code(kind), label) or code(kind)
    end
  end
  if #returns > 0 then
    lines[#lines + 1] = "\nReturns " .. table.concat(returns, ", ") .. "."
  end
end

-- The comment at the head of a module is laid out by hand, with examples and lists: it is kept as it is.
local function add_head(block, lines)
  lines[#lines + 1] = "\n```text\n" .. table.concat(block.notes, "\n") .. "\n```"
end

--- The page of one module.
---@param text string  of scripts/meta/NAME.lua
---@return string name, string page
function lua_api.page(text)
  local name, rest = text:match("^%-%-%-@meta ([%w_%.]+)\n(.*)$")
  assert(name, "a file of scripts/meta begins with ---@meta NAME")
  local lines, types, functions = { "# " .. name }, {}, {}
  for index, block in ipairs(blocks_of(rest)) do
    local class = marks(block, "class")[1]
    local alias = marks(block, "alias")[1]
    local called, arguments = (block.declaration or ""):match("^function ([%w_%.:]+)%((.-)%)")
    if class then
      add_class(block, (class:gsub("^%(exact%)%s*", "")), types)
    elseif alias then
      local label, kind = alias:match("^(%S+)%s+(.*)$")
      types[#types + 1] = "\n### " .. label
      add_notes(block, types)
      types[#types + 1] = "\n" .. code(kind)
    elseif called then
      add_function(block, called, arguments, functions)
    elseif index == 1 then
      add_head(block, lines)
    elseif block.declaration and block.declaration:find("^[%w_]+%.[%w_]+ =") then
      functions[#functions + 1] = "\n### " .. block.declaration:match("^([%w_%.]+)")
      add_notes(block, functions)
    end
  end
  for _, part in ipairs { { "Functions", functions }, { "Types", types } } do
    if #part[2] > 0 then
      lines[#lines + 1] = ("\n## %s"):format(part[1])
      lines[#lines + 1] = table.concat(part[2], "\n")
    end
  end
  return name, table.concat(lines, "\n") .. "\n"
end

--- All pages, by file name, the list of modules among them.
---@param files table<string, string>  texts of scripts/meta, by file name
---@return table<string, string>
function lua_api.pages(files)
  local pages, names = {}, {}
  for _, text in pairs(files) do
    local name, page = lua_api.page(text)
    pages[name .. ".md"] = page
    local head = page:match("```text\n(.-)\n```") or ""
    names[#names + 1] = { name = name, about = (head:gsub("\n", " "):match("^(.-%.)%s") or head:match("^[^\n]*")) }
  end
  table.sort(names, function(a, b) return a.name < b.name end)
  local lines = { "# What scripts can call", "",
    "Made by `./khost recipes/lua_api.lua` from the declarations in `scripts/meta`, which editors read too.", "" }
  for _, one in ipairs(names) do
    lines[#lines + 1] = ("* [%s](%s.md): %s"):format(one.name, one.name, one.about)
  end
  pages["README.md"] = table.concat(lines, "\n") .. "\n"
  return pages
end

return lua_api
