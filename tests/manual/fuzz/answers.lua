-- Fuzzes the reader of chat completions (policies.endpoint.answer): bodies put together of what servers send, with values
-- of every type in every place, then broken. Whatever comes, it is an answer that can be sent back, or a failure with a
-- kind and a name to count it by; and reading takes no longer than the body is long.
--
--   ./khost tests/manual/fuzz/answers.lua [--seconds 60] [--seed 1] [--only N]
local answers = require "policies.endpoint.answer"
local args = require "lib.args"
local failure = require "policies.endpoint.failure"
local json = require "khost.json"
local mutate = require "tests.manual.fuzz.mutate"
local sched = require "khost.sched"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 60, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/manual/fuzz/answers.lua", summary = "fuzzes the reader of chat completions" }

local KINDS = { context = true, again = true, filtered = true, refused = true }
local NAMES = { "choices", "delta", "message", "content", "tool_calls", "function", "arguments", "name", "id", "index", "type",
  "finish_reason", "usage", "error", "code", "status", "metadata", "raw", "prompt_tokens", "completion_tokens", "total_tokens",
  "input_tokens", "cost", "reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "text", "thinking",
  "signature", "data", "refusal", "extra_content", "function_call", "detail", "object", "role" }
local VALUES = { "null", "true", "false", "0", "1", "-1", "1e400", "-7.5", '""', '"a"', '"stop"', '"error"', '"length"',
  '"tool_calls"', '"content_filter"', '"Read"', '"{}"', '"{\\"a\\":"', '"1}"', "[]", "{}", "[null]", "[[]]", '"\\ud83d"',
  '"prompt is too long"', '"call_1"', "12345678901234567890", '"text"', '"reasoning.text"' }
local HEADS = { "data: ", "data:", ": ", "event: error\n", "event: x\ndata: ", "id: 1\n", "\r\n", "\n\n", "\r", "data: [DONE]\n\n",
  "retry: 5\n", "\239\187\191" }

local function value_of(random, depth)
  local kind = depth <= 0 and 1 or random:integer(1, 3)
  if kind == 1 and random:number() < 0.002 then
    local levels = 10 ^ random:integer(1, 5)
    return ("["):rep(levels) .. ("]"):rep(levels)
  elseif kind == 1 then
    return mutate.piece(random, VALUES)
  end
  local parts = {}
  for index = 1, random:integer(0, 4) do
    local item = value_of(random, depth - 1)
    parts[index] = kind == 2 and item or ('"%s":%s'):format(mutate.piece(random, NAMES), item)
  end
  return (kind == 2 and "[%s]" or "{%s}"):format(table.concat(parts, ","))
end

-- A body that is nearly right: what the fields hold is drawn.
local function choice(random, streamed)
  local function drawn() return value_of(random, 3) end
  local call = ('{"index":%s,"id":%s,"function":{"name":%s,"arguments":%s},"extra_content":%s}'):format(drawn(), drawn(), drawn(),
    drawn(), drawn())
  local message = ('{"content":%s,"tool_calls":[%s,%s],"reasoning_details":%s,"thinking_blocks":%s,"x":%s}'):format(drawn(), call,
    drawn(), drawn(), drawn(), drawn())
  return ('{"choices":[{"index":%s,"%s":%s,"finish_reason":%s,"usage":%s}],"usage":%s,"error":%s}'):format(
    mutate.piece(random, { "0", "0", "1", "null" }), streamed and "delta" or "message", message, drawn(), drawn(), drawn(),
    mutate.piece(random, { "null", "null", "null", drawn() }))
end

local function body_of(random)
  local kind = random:integer(1, 4)
  if kind == 1 then
    return choice(random, false)
  elseif kind == 2 then
    return value_of(random, 5)
  end
  local parts = {}
  for index = 1, random:integer(1, 8) do
    local data = kind == 3 and choice(random, true) or value_of(random, 4)
    parts[index] = mutate.piece(random, HEADS) .. (random:number() < 0.8 and "data: " or "") .. data .. mutate.piece(random, { "\n\n",
      "\r\n\r\n", "\n", "\r\r" })
  end
  return table.concat(parts)
end

local function check_answer(found)
  assert(type(found.text) == "string" and type(found.usage.prompt_tokens) == "number", "half an answer")
  assert(found.thought == nil or type(found.thought) == "string", "a thought that is no text")
  local ids = {}
  for index, call in ipairs(found.calls) do
    assert(type(call.id) == "string" and not ids[call.id], "an id that is given twice")
    ids[call.id] = true
    assert(call.name and type(call.arguments) == "table" or call.label == "malformed_call" and call.text, "half a call")
    local back = found.message.tool_calls[index]
    assert(back.id == call.id and type(back["function"].name) == "string", "another call goes back")
    assert(type(json.decode(back["function"].arguments)) == "table", "arguments that are no object go back")
  end
  local sent = json.encode(found.message)
  assert(json.decode(sent).role == "assistant", "what goes back is no message")
end

local function check_failure(problem)
  assert(type(problem) == "table" and KINDS[problem.kind] and type(problem.message) == "string" and type(problem.why) == "string",
    "a failure without a name")
  assert(#problem.message <= 600 and not problem.why:find("[^%w_]"), "a name that cannot be counted: " .. problem.why)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local read = 0
  local failures = mutate.run("answers", options, function(random)
    local body = mutate.broken(random, body_of(random), 3)
    local begin = sched.now()
    local found, problem = answers.read(body, random:number() < 0.3 and "text/event-stream" or nil)
    assert(sched.now() - begin < 1, "it took long")
    if found then
      read = read + 1
      check_answer(found)
    else
      check_failure(problem)
    end
    check_failure(failure.of_status(random:integer(300, 600), body, {}))
  end)
  print(("%d of them were answers"):format(read))
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
