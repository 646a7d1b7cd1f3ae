-- Reads the bodies of token-step episodes (serve.episodes). What they say is a stranger's: every field is checked, an
-- unknown one is refused.
--
-- POST /v1/episodes:
--   {"task": as of POST /v1/verdict, "tokenizer": a registered name, "format"?: NAME, "target"?: the service's,
--    "limits"?: {"turns", "seconds", "answer_tokens", "tokens", "response_tokens", "idle_s"}, "scheme"?: NAME,
--    "measure"?: true}
--
-- POST /v1/episodes/ID/step:
--   {"step": 1, 2, …, "tokens": [ids as drawn], "logprobs": [one each], "finish": "stop", "length" or "failed",
--    "version"?: of the weights, "message"?: why drawing failed}

local agent_limits = require "agent.limits"
local formats = require "chat.formats"
local fs = require "khost.fs"
local prompts = require "training.prompts"
local request = require "serve.request"

local episode_request = {}

local FIELDS = {
  create = { "task", "tokenizer", "format", "limits", "scheme", "measure", "target" },
  step = { "step", "tokens", "logprobs", "finish", "version", "message" },
  text = { "step", "text", "prompt_tokens", "tokens", "logprobs", "finish", "version", "message" },
}
-- Formats whose answers can be read out of drawn tokens.
local FORMATS = { hermes = true, xml = true, bash = true, tiny = true, files = true }
local MOST_ANSWER = 4 * 2 ^ 20  -- bytes of its text
-- Least, most and what holds when nothing is said.
local LIMITS = {
  turns = { 1, 1000, agent_limits.DEFAULTS.turns },
  seconds = { 1, 86400, agent_limits.DEFAULTS.seconds },
  answer_tokens = { 1, 2 ^ 20, agent_limits.DEFAULTS.answer_tokens },
  tokens = { 16, 2 ^ 20, 131072 },    -- of the whole conversation; the paper's context
  response_tokens = { 1, 2 ^ 20, 2 ^ 20 },  -- of what is behind the prompt
  idle_s = { 1, 3600, 600 },          -- until the next step must have come
}
local FINISH = { stop = true, length = true, failed = true }
local MOST_TEXT = 200  -- bytes of a version or a message
local MOST_LOGPROB = 1e-3  -- above 0, by rounding
-- Bytes of a step's body: an id with its log-probability, in all digits and with spaces; an id of a prompt; what a
-- token may stand for in a text, where each letter may be written as \u and four digits; and all other fields.
local DRAWN_BYTES, PROMPT_BYTES, TEXT_BYTES, OTHER_BYTES = 64, 16, 256, 65536

local function is_whole(value, least, most)
  return type(value) == "number" and value >= least and value <= most and value == math.floor(value)
end

local function limits_of(given)
  local limits = {}
  if given ~= nil and (type(given) ~= "table" or #given > 0) then
    return nil, "limits: an object expected"
  end
  for name in pairs(given or {}) do
    if not LIMITS[name] then
      return nil, ("limits: unknown limit '%s'; known are turns, seconds, answer_tokens, tokens, response_tokens, "
        .. "idle_s")
        :format(tostring(name):sub(1, MOST_TEXT))
    end
  end
  for name, bounds in pairs(LIMITS) do
    local value = (given or {})[name]
    if value ~= nil and not is_whole(value, bounds[1], bounds[2]) then
      return nil, ("limits.%s: a whole number from %d to %d expected"):format(name, bounds[1], bounds[2])
    end
    limits[name] = value or bounds[3]
  end
  return limits
end

-- The chat format by name, or that for which the tokenizer has tokens; a server of messages has its own.
local function format_of(name, tokenizer, target)
  if name == nil then
    return tokenizer and formats.of(tokenizer) or formats.named "hermes"
  elseif type(name) ~= "string" or not FORMATS[name] then
    return nil, "format: hermes, xml, bash, files or tiny expected"
  end
  local format = name == "files" and prompts.plain(target) or formats.named(name)
  if not tokenizer then
    return name ~= "tiny" and format or nil, "format tiny: it needs a tokenizer"
  end
  local ok, message = pcall(format.open, tokenizer)
  if not ok then
    return nil, ("format %s: %s"):format(name, tostring(message):gsub("^[^:]*:%d+: ", ""))
  end
  return format
end

---@class (exact) EpisodeRequest
---@field task table
---@field tokenizer? table     serve.tokenizers; without it text goes out, and ids come in with text
---@field format table         scripts/chat
---@field limits table<string, integer>
---@field scheme? string
---@field measure boolean

--- Reads the body of POST /v1/episodes.
---@param text string
---@param options ReadOptions   with tokenizers: serve.tokenizers
---@return EpisodeRequest|nil, string? message, string? code   bad_input, no_task, no_right
function episode_request.create(text, options)
  local body, message = request.object(text, FIELDS.create)
  if not body then
    return nil, message, "bad_input"
  end
  local wrong = request.wrong_choices(body)
  if wrong then
    return nil, wrong, "bad_input"
  elseif body.target ~= nil and body.target ~= options.target then
    return nil, ("target: this service judges on target %s"):format(options.target), "bad_input"
  end
  local tokenizer, unknown
  if body.tokenizer ~= nil then
    tokenizer, unknown = options.tokenizers:find(body.tokenizer)
  end
  if unknown then
    return nil, "tokenizer: " .. unknown, "bad_input"
  end
  local limits, problem = limits_of(body.limits)
  local format
  if limits then
    format, problem = format_of(body.format, tokenizer and tokenizer.tokenizer, options.target)
  end
  if not format then
    return nil, problem, "bad_input"
  end
  local task, why, code = request.task(body.task, options.tasks, options.may_submit)
  if not task then
    return nil, why, code
  end
  return { task = task, tokenizer = tokenizer, format = format, limits = limits, scheme = body.scheme,
    measure = body.measure ~= false }
end

local function is_list(value)
  if type(value) ~= "table" then
    return false
  end
  local count, most = 0, #value
  for _ in pairs(value) do
    count = count + 1
    if count > most then
      return false
    end
  end
  return count == most
end

--- The most bytes that a step of an episode may have, by the limits that the episode has.
---@param limits table<string, integer>
---@param with_text boolean
---@return integer
function episode_request.most_bytes(limits, with_text)
  local drawn = limits.answer_tokens * (DRAWN_BYTES + (with_text and TEXT_BYTES or 0))
  return math.min(request.MOST_BYTES, OTHER_BYTES + drawn + (with_text and limits.tokens * PROMPT_BYTES or 0))
end

--- The number of a step as it stands in its body, before anything of that is read; nil where it is not seen there.
---@param text string
---@return integer|nil
function episode_request.number_of(text)
  return tonumber(text:match '"step"%s*:%s*(%d+)')
end

-- Lists that are longer than the episode allows, before anything in them is looked at.
local function too_long(body, limits)
  local drawn = type(body.tokens) == "table" and #body.tokens or 0
  local prompt = type(body.prompt_tokens) == "table" and #body.prompt_tokens or 0
  if drawn > limits.answer_tokens then
    return ("tokens: at most %d may be drawn in this step, got %d"):format(limits.answer_tokens, drawn)
  elseif type(body.logprobs) == "table" and #body.logprobs > limits.answer_tokens then
    return ("logprobs: one for each of the %d tokens expected, got %d"):format(drawn, #body.logprobs)
  elseif prompt > limits.tokens then
    return ("prompt_tokens: the prompt has %d ids, and limits.tokens = %d"):format(prompt, limits.tokens)
  end
end

local function wrong_tokens(body)
  if not is_list(body.tokens) or not is_list(body.logprobs) then
    return "tokens and logprobs: lists expected"
  elseif #body.tokens == 0 then
    return "tokens: at least one drawn token expected"
  elseif #body.logprobs ~= #body.tokens then
    return ("logprobs: one for each of the %d tokens expected, got %d"):format(#body.tokens, #body.logprobs)
  end
  for index, token in ipairs(body.prompt_tokens or {}) do
    if not is_whole(token, 0, 2 ^ 31 - 1) then
      return ("prompt_tokens[%d]: a token id expected"):format(index - 1)
    end
  end
  for index, token in ipairs(body.tokens) do
    local logprob = body.logprobs[index]
    if not is_whole(token, 0, 2 ^ 31 - 1) then
      return ("tokens[%d]: a token id expected"):format(index - 1)
    elseif type(logprob) ~= "number" or not (logprob <= MOST_LOGPROB and logprob > -math.huge) then
      return ("logprobs[%d]: a number of at most 0 expected"):format(index - 1)
    end
  end
end

local function wrong_word(value, name)
  if value ~= nil and (type(value) ~= "string" or #value > MOST_TEXT) then
    return ("%s: a text of at most %d bytes expected"):format(name, MOST_TEXT)
  end
end

---@class (exact) StepRequest
---@field step integer
---@field finish "stop"|"length"|"failed"
---@field tokens integer[]
---@field logprobs number[]
---@field version? integer|string
---@field message? string
---@field text? string            of a server of messages
---@field prompt_tokens? integer[]
---@field mark string   equal for equal steps

local function wrong_text(body)
  if type(body.text) ~= "string" or #body.text > MOST_ANSWER then
    return ("text: the answer's text expected, of at most %d bytes"):format(MOST_ANSWER)
  elseif not is_list(body.prompt_tokens) or #body.prompt_tokens == 0 then
    return "prompt_tokens: the ids that the server drew behind expected"
  end
end

--- Reads the body of POST /v1/episodes/ID/step.
---@param text string
---@param with_text boolean   whether the episode has no tokenizer
---@param limits table<string, integer>   of the episode
---@return StepRequest|nil, string? message
function episode_request.step(text, with_text, limits)
  local body, message = request.object(text, with_text and FIELDS.text or FIELDS.step)
  if not body then
    return nil, message
  elseif not is_whole(body.step, 1, 2 ^ 31) then
    return nil, "step: the number of this step expected, 1 for the first"
  elseif not FINISH[body.finish] then
    return nil, "finish: stop, length or failed expected"
  end
  local drawn = body.finish ~= "failed"
  local wrong = drawn and (too_long(body, limits) or with_text and wrong_text(body) or wrong_tokens(body))
    or wrong_word(body.message, "message")
    or not is_whole(body.version, 0, 2 ^ 53) and wrong_word(body.version, "version") or nil
  if wrong then
    return nil, wrong
  end
  local tokens = drawn and body.tokens or {}
  return { step = body.step, finish = body.finish, tokens = tokens, logprobs = body.logprobs, version = body.version,
    message = body.message, text = body.text, prompt_tokens = body.prompt_tokens,
    mark = fs.sha256(("%s %s %s"):format(body.finish, table.concat(tokens, ","), body.text or "")) }
end

return episode_request
