-- File name patterns of Glob, Grep and .gitignore: *, **, ?, [abc], [!abc], {a,b}. They come from a policy:
-- matching takes a bounded time whatever they are.

local globs = {}

local MOST_ALTERNATIVES = 64  -- of one glob

-- {a,b} becomes several patterns. Where that would be too many, braces are taken as they stand.
local function alternatives(glob)
  local list = { glob }
  local at = 1
  while list[at] do
    local before, inside, after = list[at]:match("^(.-){([^{}]*)}(.*)$")
    if before then
      local more = {}
      for part in (inside .. ","):gmatch("(.-),") do
        more[#more + 1] = before .. part .. after
      end
      if #list + #more > MOST_ALTERNATIVES then
        return { glob }
      end
      list[at] = more[1]
      for i = 2, #more do
        list[#list + 1] = more[i]
      end
    else
      at = at + 1
    end
  end
  return list
end

-- What may stand between brackets: {set = {[byte] = true}, negated}; nil when they do not close.
local function class_at(part, at)
  local from = at + 1
  local negated = part:find("^[!^]", from) ~= nil
  from = negated and from + 1 or from
  local close = part:find("]", from + 1, true)  -- a bracket that comes first is one of the characters
  if not close then
    return nil
  end
  local set, i = {}, from
  while i < close do
    local last = i
    if part:sub(i + 1, i + 1) == "-" and i + 2 < close then
      last = i + 2
    end
    for byte = part:byte(i), part:byte(last) do
      set[byte] = true
    end
    i = last + 1
  end
  return { set = set, negated = negated }, close
end

-- One part between slashes: a list of bytes, "*", "?" and classes.
local function tokens_of(part)
  local tokens, at = {}, 1
  while at <= #part do
    local sign = part:sub(at, at)
    local class, close
    if sign == "[" then
      class, close = class_at(part, at)
    end
    if class then
      tokens[#tokens + 1], at = class, close
    elseif sign == "*" or sign == "?" then
      tokens[#tokens + 1] = sign
    else
      tokens[#tokens + 1] = part:byte(at)
    end
    at = at + 1
  end
  return tokens
end

local function parts_of(glob)
  local parts = {}
  for part in glob:gmatch("[^/]+") do
    parts[#parts + 1] = part == "**" and part or tokens_of(part)
  end
  return parts
end

local function fits(token, byte)
  if token == "?" then
    return true
  elseif type(token) == "table" then
    return (token.set[byte] or false) ~= token.negated
  end
  return token == byte
end

-- Whether the parts of a pattern, among them wildcards for any number of things, cover all `count` things;
-- `covers(part, k)` says it of one part and the k-th thing. Only the last wildcard is ever tried again with one more,
-- as with "*" in a shell: the time is bounded.
local function match_all(parts, wildcard, count, covers)
  local i, k, star, tried = 1, 1, nil, nil
  while k <= count do
    if parts[i] == wildcard then
      star, tried = i, k
      i = i + 1
    elseif parts[i] and covers(parts[i], k) then
      i, k = i + 1, k + 1
    elseif star then
      tried = tried + 1
      i, k = star + 1, tried
    else
      return false
    end
  end
  while parts[i] == wildcard do
    i = i + 1
  end
  return i > #parts
end

local function part_matches(tokens, name)
  return match_all(tokens, "*", #name, function(token, k) return fits(token, name:byte(k)) end)
end

local function match_parts(parts, names)
  return match_all(parts, "**", #names, function(part, k) return part_matches(part, names[k]) end)
end

--- A glob made ready for match: *, **, ?, [abc], {a,b}.
function globs.pattern(glob)
  local list = {}
  for i, alternative in ipairs(alternatives(glob)) do
    list[i] = parts_of(alternative)
  end
  return list
end

function globs.match(pattern, path)
  local names = {}
  for name in path:gmatch("[^/]+") do
    names[#names + 1] = name
  end
  for _, parts in ipairs(pattern) do
    if match_parts(parts, names) then
      return true
    end
  end
  return false
end

return globs
