-- How alike two tasks are: structural similarity of their Model classes, for keeping training apart from evaluation.
--
-- The paper names "PythonASTSimilarity", which is not published; the measure here is defined as follows. The class body
-- is read as a sequence of tokens; names that the program binds itself (arguments, assigned variables, attributes of
-- self) become one token each for their kind, dotted names of libraries, operators and numbers stay.
-- What every task has in common (class header, super().__init__()) is left out. The similarity is Dice's coefficient
-- over the multisets of token trigrams: 1 for programs that differ in names only, 0 without a common trigram.

local similarity = {}

local KEYWORDS = { ["return"] = true, ["def"] = true, ["if"] = true, ["for"] = true, ["in"] = true, ["else"] = true,
  ["lambda"] = true, ["not"] = true, ["and"] = true, ["or"] = true, ["None"] = true, ["True"] = true,
  ["False"] = true, ["class"] = true }

local function class_body(source)
  local text = "\n" .. source:gsub("\r\n", "\n"):gsub("#[^\n]*", "")
  -- `Model = Other` says which class is meant.
  local name = not text:match("\nclass%s+Model%s*[%(:]") and (text .. "\n"):match("\nModel%s*=%s*([%w_]+)%s*\n")
    or "Model"
  local body = text:match("\nclass%s+" .. name .. "%s*%b():%s*\n(.*)")
  local out = {}
  for line in ((body or text) .. "\n"):gmatch("(.-)\n") do
    if body and line:match("^%S") then
      break
    end
    out[#out + 1] = line
  end
  return (table.concat(out, "\n"):gsub("super%(.-%)%.__init__%(%)", ""))
end

local function bound_names(body)
  local names = { self = true }
  for arguments in body:gmatch("def%s+[%w_]+%s*(%b())") do
    for name in arguments:gmatch("[%a_][%w_]*") do
      names[name] = true
    end
  end
  for targets in body:gmatch("\n%s*([%w_, ]-)%s*=[^=]") do
    for name in targets:gmatch("[%a_][%w_]*") do
      names[name] = true
    end
  end
  return names
end

--- The tokens of a program's Model.
---@param source string
---@return string[]
function similarity.tokens(source)
  local body = "\n" .. class_body(source)
  local bound, tokens, at = bound_names(body), {}, 1
  while at <= #body do
    local from, to = body:find("^[%a_][%w_%.]*", at)
    if from then
      local word = body:sub(from, to)
      local head = word:match("^[%w_]+")
      if head == "self" and word ~= "self" then
        word = "<attribute>"
      elseif bound[head] and not KEYWORDS[head] then
        word = "<name>" .. word:sub(#head + 1)
      end
      tokens[#tokens + 1] = word
    else
      from, to = body:find("^%d[%w%.]*", at)
      if not from then
        from, to = body:find("^%*%*", at)
      end
      if not from then
        from, to = body:find("^%S", at)
      end
      if from then
        tokens[#tokens + 1] = body:sub(from, to)
      end
    end
    at = (to or at) + 1
  end
  return tokens
end

local function trigrams(tokens)
  local grams, count = {}, 0
  for i = 1, math.max(1, #tokens - 2) do
    local gram = table.concat(tokens, " ", i, math.min(i + 2, #tokens))
    grams[gram] = (grams[gram] or 0) + 1
    count = count + 1
  end
  return grams, count
end

--- What `compare` needs of a program; make it once for each.
---@param source string
---@return table
function similarity.profile(source)
  local grams, count = trigrams(similarity.tokens(source))
  return { grams = grams, count = count }
end

--- Between 0 and 1, the same in both directions.
---@param a table   a profile
---@param b table
---@return number
function similarity.compare(a, b)
  local common = 0
  for gram, n in pairs(a.grams) do
    common = common + math.min(n, b.grams[gram] or 0)
  end
  return 2 * common / (a.count + b.count)
end

--- The greatest similarity to any of a list, and its place.
---@param profile table
---@param others table[]
---@return number, integer|nil
function similarity.greatest(profile, others)
  local most, place = 0, nil
  for index, other in ipairs(others) do
    local value = similarity.compare(profile, other)
    if value > most then
      most, place = value, index
    end
  end
  return most, place
end

--- Counts in ten bins of a tenth, for a histogram.
---@param values number[]
---@return integer[]
function similarity.histogram(values)
  local bins = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  for _, value in ipairs(values) do
    local bin = math.min(10, math.floor(value * 10) + 1)
    bins[bin] = bins[bin] + 1
  end
  return bins
end

return similarity
