-- What a server means when it does not answer: the context is full, come again later, a filter took the answer, or no.
-- Servers have no words in common; docs/endpoint.md says whose each wording is.
--
--   kind     "context"   the conversation, or what is asked for beside it, does not fit
--            "again"     the same request may be answered later
--            "filtered"  a filter of the provider's took the request or the answer
--            "refused"   the request will not be answered
--   why      what is counted: "status_429", "bad_answer", "filtered", …
--   message  the server's words, short
--   wait     seconds that the server asks for; of "again"
--   context, room   tokens of the whole and what is left beside the prompt, where the server says so; of "context"
--   most_tokens     the most that an answer may have, where the server says so

local events = require "policies.endpoint.events"
local json = require "khost.json"

local failure = {}

local MESSAGE_BYTES = 500
local WORDS_BYTES = 8192
local STATUS_AGAIN = { [408] = true, [409] = true, [425] = true, [429] = true }

-- Lua patterns over the words in lower case. Each stands for a server in the table of docs/endpoint.md.
local CONTEXT = {
  "maximum context length", "context[_ ]length[_ ]exceeded", "maximum model length", "max_model_len",
  "too long to fit into the model", "model's context length", "exceeds the maximum allowed length",
  "exceed_context_size_error", "exceeds the available context size", "context size has been exceeded",
  "context_exceeded", "exceeds context size", "exceeds? the context window", "exceeds? context window",
  "context window exceeds", "context_window_exceeded", "prompt is too long", "prompt too long", "input is too long",
  "input prompt %(.-%) is too long", "exceeds? context limit", "request_too_large",
  "request exceeds the maximum size", "exceeds? the context length", "exceeds? context length",
  "exceeded max context length", "greater than the context length", "context length of only",
  "the configured context size is", "input token count.-exe?ceeds", "token count.-exceeds the limit of %d",
  "exceeds the maximum number of tokens", "maximum prompt length is %d", "exceeded model token limit",
  "range of input length should be", "reduce the length of the messages", "prompt exceeds max length",
  "exceeds the maximum allowed input length", "tokens in request more than max tokens allowed",
  "`?inputs`? tokens %+ `?max_new_tokens`? must be", "`?inputs`? must have less than %d+ tokens",
  "\232\182\133\232\191\135\230\156\128\229\164\167\233\149\191\229\186\166",  -- "longer than the greatest length"
}
-- Limits of an account have similar words.
local RATE = { "rate.?limit", "per min", "per day", "tokens per", "requests per", "too many requests", "quota",
  "throttl" }
local UNPAID = { "insufficient_quota", "insufficient balance", "insufficient credits", "billing",
  "credit balance is too low", "payment required" }
local FILTERED = { "content_filter", "content_policy", "responsibleaipolicy", "data_inspection_failed",
  "content exists risk", "content management policy", "flagged as potentially violating" }
local FINAL_TYPES = { "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
  "invalid_api_key", "model_not_found", "badrequesterror" }

-- What is left of the context beside the prompt: the whole, and the prompt.
local ROOM = {
  "context length is (%d+) tokens.-%((%d+) in the messages", "context length is (%d+) tokens.-%((%d+) in your prompt",
  "context length is (%d+) tokens.-request has (%d+) input tokens",
  "context length is (%d+) tokens.-prompt contains (%d+) input tokens",
  "context length is (%d+) tokens.-prompt contains at least (%d+) input tokens",
  "context length of (%d+) tokens.-: (%d+) tokens from the input messages",
  "max_new_tokens`? must be <= (%d+)%. given: (%d+) `?inputs",
}
local MOST_TOKENS = {
  "supports at most (%d+) completion tokens", "range of max_tokens is %[%d+, ?(%d+)%]",
  "max_tokens`? must be less than or equal to `?(%d+)", "max_tokens: %d+ > (%d+), which is the maximum",
  "max_new_tokens`? must be <= (%d+)%. given: %d+[^%d`]*$",
}

local function any(text, patterns)
  for _, pattern in ipairs(patterns) do
    if text:find(pattern) then
      return true
    end
  end
  return false
end

-- The object that says what is wrong, in an answer of any form.
local function problem_of(value)
  if type(value) ~= "table" then
    return value
  end
  if value.error == nil and type(value[1]) == "table" then
    value = value[1]  -- some gateways put the object into a list
  end
  local problem = value.error
  if problem == nil or problem == json.null then
    problem = value.detail or value.message or value
  end
  return problem
end

local function said(problem)
  local text = problem
  if type(problem) == "table" then
    text = problem.message
    local raw = type(problem.metadata) == "table" and problem.metadata.raw
    if type(raw) == "string" and type(text) == "string" then
      text = text .. ": " .. raw  -- a gateway with the words of the server behind it
    end
  end
  return type(text) == "string" and text ~= "" and text or json.encode(problem)
end

local function status_in(problem)
  for _, name in ipairs { "code", "status", "status_code", "http_code" } do
    local number = type(problem) == "table" and tonumber(problem[name])
    if number and number >= 400 and number < 1000 then
      return number
    end
  end
end

local function numbers_of(words, found)
  for _, pattern in ipairs(ROOM) do
    local whole, prompt = words:match(pattern)
    if whole then
      found.context, found.room = tonumber(whole), tonumber(whole) - tonumber(prompt)
      return
    end
  end
  local prompt, whole = words:match("context limit: (%d+) %+ %d+ > (%d+)")
  if prompt then
    found.context, found.room = tonumber(whole), tonumber(whole) - tonumber(prompt)
    return
  end
  found.context = tonumber(words:match("maximum context length [io][sf] (%d+) tokens")
    or words:match('"n_ctx":(%d+)'))
end

-- What servers ask for in the body: Gemini's retryDelay, and "try again in 1.5s".
local function wait_in(words)
  local number, unit = words:match('"retrydelay":"([%d%.]+)(m?s)"')
  if not number then
    number, unit = words:match("try again in ([%d%.]+) ?(m?s)")
  end
  number = tonumber(number)
  return number and number * (unit == "ms" and 1e-3 or 1) or nil
end

local function kind_of(words, status, in_answer)
  local limited = any(words, RATE)
  if not limited and (status == 413 or any(words, CONTEXT)) then
    return "context"
  elseif status == 402 or any(words, UNPAID) then
    return "refused"
  elseif any(words, FILTERED) then
    return "filtered"
  elseif status and (STATUS_AGAIN[status] or status >= 500) then
    return "again"
  elseif in_answer and not status then
    return (limited or not any(words, FINAL_TYPES)) and "again" or "refused"
  end
  return "refused"
end

local function classified(problem, status, in_answer, label)
  local words = (type(problem) == "string" and problem or json.encode(problem)):sub(1, WORDS_BYTES):lower()
    :gsub("%s+", " ")
  local found = { kind = kind_of(words, status, in_answer), message = said(problem):sub(1, MESSAGE_BYTES) }
  found.why = found.kind == "filtered" and "filtered" or label
  if found.kind == "context" then
    numbers_of(words, found)
  elseif found.kind == "again" then
    found.wait = wait_in(words)
  end
  for _, pattern in ipairs(MOST_TOKENS) do
    found.most_tokens = found.most_tokens or tonumber(words:match(pattern))
  end
  return found
end

--- Of an answer with a status other than 200.
---@param status integer
---@param body string
---@param headers? table<string, string>
---@return table
function failure.of_status(status, body, headers)
  local value = events.decode(body)
  local found = classified(problem_of(value == nil and body or value), status, false, ("status_%d"):format(status))
  found.message = ("status %d: %s"):format(status, found.message)
  local asked = headers and headers["x-should-retry"]
  if asked == "false" and found.kind == "again" then
    found.kind = "refused"
  elseif asked == "true" and found.kind == "refused" then
    found.kind = "again"
  end
  return found
end

--- Whether a part of an answer says that something failed: an object or a text under `error`.
---@param value any
---@return table|nil
function failure.within(value)
  local problem = type(value) == "table" and value.error
  if not problem or problem == json.null or problem == "" or type(problem) == "table" and not next(problem) then
    return nil
  end
  local status = status_in(problem)
  return classified(problem, status, true, status and ("error_%d"):format(status) or "bad_answer")
end

--- Of a body that has no choices.
---@param value table
---@return table
function failure.without_choices(value)
  local problem = problem_of(value)
  local status = status_in(value) or status_in(problem)
  if problem == value and not status then
    return failure.bad("the answer has no choices: " .. json.encode(value):sub(1, 200))
  end
  return classified(problem, status, true, status and ("error_%d"):format(status) or "bad_answer")
end

--- An answer that cannot be read, or none at all.
---@param message string
---@param why? string
---@return table
function failure.bad(message, why)
  return { kind = "again", why = why or "bad_answer", message = message:sub(1, MESSAGE_BYTES) }
end

--- An answer that a filter of the provider's took.
---@param message string
---@return table
function failure.filtered(message)
  return { kind = "filtered", why = "filtered", message = message }
end

return failure
