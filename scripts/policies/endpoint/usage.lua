-- What an answer cost: tokens in, out and read from a cache, whatever a server calls them, and money by a table of
-- prices.

local fs = require "khost.fs"
local json = require "khost.json"

local usage = {}

---@class (exact) Price
---@field input number    for a million tokens
---@field output number
---@field cached? number  of tokens that the server had in its cache; as input when absent

local function number(value)
  return type(value) == "number" and value == value and value >= 0 and value < 1e12 and math.floor(value) or nil
end

local function first(...)
  for index = 1, select("#", ...) do
    local value = number((select(index, ...)))
    if value then
      return value
    end
  end
end

--- Of a `usage` object. Prompt tokens include those of the cache, completion tokens those of thoughts. `known` says
--- whether the server counted at all.
---@param given any
---@return {prompt_tokens: integer, completion_tokens: integer, cached_tokens: integer, cost?: number, known: boolean}
function usage.of(given)
  given = type(given) == "table" and given or {}
  local details = type(given.prompt_tokens_details) == "table" and given.prompt_tokens_details
    or type(given.input_tokens_details) == "table" and given.input_tokens_details or {}
  local cached = first(details.cached_tokens, given.prompt_cache_hit_tokens, given.cache_read_input_tokens,
    given.cached_tokens) or 0
  local prompt = number(given.prompt_tokens)
  if not prompt and number(given.input_tokens) then
    -- Where input tokens leave the cache out, they say beside them what was read from it and written to it.
    prompt = given.input_tokens + (first(given.cache_read_input_tokens) or 0)
      + (first(given.cache_creation_input_tokens) or 0)
  end
  local completion = first(given.completion_tokens, given.output_tokens)
  local total = number(given.total_tokens)
  if total and prompt and total > prompt + (completion or 0) then
    completion = total - prompt  -- thoughts that a server counts apart
  end
  local cost = type(given.cost) == "number" and given.cost >= 0 and given.cost or nil
  return { prompt_tokens = prompt or 0, completion_tokens = completion or 0, cached_tokens = math.min(cached,
    prompt or 0), cost = cost, known = (prompt or completion) ~= nil }
end

--- Adds one to another.
---@param sum table
---@param one table
function usage.add(sum, one)
  for _, name in ipairs { "prompt_tokens", "completion_tokens", "cached_tokens" } do
    sum[name] = (sum[name] or 0) + (one[name] or 0)
  end
  sum.cost = one.cost and (sum.cost or 0) + one.cost or sum.cost
end

--- Money for tokens.
---@param sum table
---@param price Price
---@return number
function usage.cost(sum, price)
  local cached = math.min(sum.cached_tokens, sum.prompt_tokens)
  return ((sum.prompt_tokens - cached) * price.input + cached * (price.cached or price.input)
    + sum.completion_tokens * price.output) / 1e6
end

local function is_price(value)
  return type(value) == "table" and number(value.input) and number(value.output)
    and (value.cached == nil or number(value.cached)) and true or false
end

-- The price of the name itself, else of the longest "name*" that it begins with.
local function fitting(prices, model)
  local best, size = prices[model], math.huge
  for pattern, price in pairs(best and {} or prices) do
    local head = pattern:match("^(.*)%*$")
    if head and model:sub(1, #head) == head and (not best or #head > size) then
      best, size = price, #head
    end
  end
  return best
end

--- The price of a model.
---@param prices Price|table<string, Price>|nil   one price, or a table by model; "name*" fits what begins with name
---@param model string
---@return Price|nil
function usage.price_of(prices, model)
  if prices == nil or is_price(prices) then
    return prices
  end
  return fitting(prices, model)
end

--- Prices as a command line gives them: "IN,OUT", "IN,OUT,CACHED", or a JSON file of {"model": {"input", "output",
--- "cached"}} with "name*" for all models that begin so.
---@param text string
---@return table|nil prices, string? message
function usage.parse_prices(text)
  local input, output, cached = text:match("^([%d%.]+),([%d%.]+),?([%d%.]*)$")
  if tonumber(input) and tonumber(output) and (cached == "" or tonumber(cached)) then
    return { input = tonumber(input), output = tonumber(output), cached = tonumber(cached) }
  end
  local content = fs.exists(text) == "file" and fs.read(text)
  if not content then
    return nil, ("%s: IN,OUT or IN,OUT,CACHED for a million tokens expected, as in 3,15,0.3, or a JSON file of prices "
      .. "by model"):format(text)
  end
  local prices = json.decode(content)
  if type(prices) ~= "table" or not next(prices) then
    return nil, ("%s: no JSON object of prices by model"):format(text)
  end
  for model, price in pairs(prices) do
    if not is_price(price) or type(model) ~= "string" then
      return nil, ('%s: the price of %s must be {"input": number, "output": number, "cached": number}, for a million '
        .. "tokens"):format(text, tostring(model))
    end
  end
  return prices
end

return usage
