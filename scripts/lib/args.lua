-- Command lines of recipes and commands: a list of options becomes a table, misuse ends the program with code 2.
--
--   local options = args.parse({
--     { name = "task", required = true, help = "the task's file" },                -- by position
--     { name = "--limit", kind = "number", default = 8, help = "tasks at once" },
--     { name = "--set", kind = "list", help = "override a key" },                  -- may be repeated
--     { name = "--resume", kind = "text", optional_value = "latest" },             -- --resume or --resume=RUN
--   }, list, { name = "evaluate", summary = "judges a workspace" })
--   options.task, options.limit, options.set, options.resume
local config = require "khost.config"

local args = {}

local KINDS = { text = true, number = true, flag = true, list = true }

-- What the host prints without a traceback before it leaves with `code`.
local function leave(code, text)
  error(setmetatable({ exit = code, message = text }, { __tostring = function() return text end }), 0)
end

local function key_of(spec) return (spec.name:gsub("^%-+", ""):gsub("%-", "_")) end

local function placeholder(spec)
  if spec.kind == "flag" then return spec.name end
  if spec.optional_value then return spec.name .. "[=" .. key_of(spec):upper() .. "]" end
  return spec.name .. " " .. (spec.kind == "number" and "N" or key_of(spec):upper())
end

-- `about`: name, summary, and notes that stand behind the options.
function args.usage(specs, about)
  about = about or {}
  local line, rows, widest = { "usage: khost", about.name or "SCRIPT.lua" }, {}, 0
  for _, spec in ipairs(specs) do
    local positional = spec.name:sub(1, 1) ~= "-"
    local text = positional and spec.name:upper() or placeholder(spec)
    if spec.kind == "list" then text = text .. "..." end
    line[#line + 1] = spec.required and text or "[" .. text .. "]"
    local help = spec.help or ""
    if spec.default ~= nil and spec.kind ~= "flag" then
      local words = type(spec.default) == "table" and table.concat(spec.default, " ") or tostring(spec.default)
      help = ("%s (default %s)"):format(help, words)
    end
    rows[#rows + 1] = { text, help }
    widest = math.max(widest, #text)
  end
  local out = { table.concat(line, " ") }
  if about.summary then out[#out + 1] = "\n" .. about.summary end
  if #rows > 0 then out[#out + 1] = "" end
  for _, row in ipairs(rows) do out[#out + 1] = ("  %-" .. widest .. "s  %s"):format(row[1], row[2]) end
  if about.notes then out[#out + 1] = "\n" .. about.notes end
  return table.concat(out, "\n") .. "\n"
end

local function number_of(spec, text)
  local value = tonumber(text)
  if not value then leave(2, ("%s: a number expected, got '%s'"):format(spec.name, text)) end
  return value
end

local function sort_out(specs)
  local named, names, positions, result = {}, { "--help" }, {}, {}
  for _, spec in ipairs(specs) do
    spec.kind = spec.kind or "text"
    if not KINDS[spec.kind] then error(("option %s: unknown kind '%s'"):format(spec.name, spec.kind), 3) end
    if spec.name:sub(1, 1) == "-" then
      named[spec.name], names[#names + 1] = spec, spec.name
    else
      positions[#positions + 1] = spec
    end
    if spec.kind == "list" then result[key_of(spec)] = {} end
  end
  return named, names, positions, result
end

local function set(result, spec, value)
  local key = key_of(spec)
  if spec.kind == "list" then
    table.insert(result[key], value)
  else
    result[key] = spec.kind == "number" and number_of(spec, value) or value
  end
end

-- The options by name, dashes as underscores and without the leading ones. `--help` prints and ends with code 0.
function args.parse(specs, list, about)
  local named, names, positions, result = sort_out(specs)
  local position, i, only_positions = 1, 1, false
  local function next_value(spec, inline)
    if inline then return inline end
    if spec.optional_value then return spec.optional_value end
    i = i + 1
    if list[i] == nil then leave(2, spec.name .. ": a value is missing") end
    return list[i]
  end
  while i <= #list do
    local word = list[i]
    if word == "--" and not only_positions then
      only_positions = true
    elseif word:sub(1, 1) == "-" and #word > 1 and not only_positions then
      local name, inline = word:match("^(%-%-[^=]+)=(.*)$")
      name = name or word
      if name == "--help" or name == "-h" then leave(0, args.usage(specs, about)) end
      local spec = named[name]
      if not spec then
        leave(2, ("unknown option '%s'; did you mean '%s'?"):format(name, config.nearest(name, names)))
      end
      if spec.kind == "flag" then
        if inline then leave(2, name .. " takes no value") end
        result[key_of(spec)] = true
      else
        set(result, spec, next_value(spec, inline))
      end
    else
      local spec = positions[position]
      if not spec then leave(2, ("unexpected argument '%s' (--help says what is accepted)"):format(word)) end
      set(result, spec, word)
      if spec.kind ~= "list" then position = position + 1 end
    end
    i = i + 1
  end
  for _, spec in ipairs(specs) do
    local key = key_of(spec)
    if result[key] == nil then
      if spec.required then leave(2, ("%s is missing\n\n%s"):format(spec.name, args.usage(specs, about))) end
      result[key] = spec.default
    elseif spec.kind == "list" and #result[key] == 0 then
      if spec.required then leave(2, ("%s is missing\n\n%s"):format(spec.name, args.usage(specs, about))) end
      result[key] = spec.default or result[key]
    end
  end
  return result
end

-- Ends the program with a message and the code of misuse, from anywhere in a command.
function args.misuse(text) leave(2, text) end

return args
