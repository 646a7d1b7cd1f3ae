-- policies.endpoint against a server process that answers, fails and refuses as servers of all kinds do.
local chunks = require "tests.lua.data.chunks"
local json = require "khost.json"
local kit = require "tests.lua.endpoint_kit"
local server_kit = require "tests.lua.server_kit"
local t = require "tests.lua.harness"
local usage = require "policies.endpoint.usage"

local delta, finish, stream, whole = chunks.delta, chunks.finish, chunks.stream, chunks.whole
local draw, play, calls_of, piece = kit.draw, kit.play, kit.calls_of, kit.piece
local DONE, READ = kit.DONE, kit.READ

local spec = {}

function spec.failures_inside_an_answer_are_asked_again_and_no_answer()
  local failed = { message = "Provider returned error", code = 502 }
  local bodies = {
    choice = whole({ content = "I will" }, "error", { error = failed }),
    finish_alone = whole({ content = "" }, "error"),
    in_the_message = whole({ content = "", error = "the worker died" }, "stop"),
    top = { body = { error = failed, choices = json.list {} } },
    as_text = { body = { error = "CUDA out of memory" } },
    object_error = { body = { object = "error", message = "engine is dead", code = 500 } },
    list = { body = { { error = failed } } },
    aborted = whole({ content = "half" }, "abort"),
    overloaded = whole({ content = "half" }, "insufficient_system_resource"),
    lost_calls = whole({ content = "" }, "tool_calls"),
    nothing = { body = "" },
    page = { body = "<html>Bad gateway</html>", type = "text/html" },
    null = { body = "null" },
    deep = { body = '{"choices":[{"message":{"content":"x","y":' .. ("["):rep(60) .. ("]"):rep(60) .. "}}]}" },
    very_deep = { body = ("["):rep(1e5) .. ("]"):rep(1e5) },
    no_choices = { body = { choices = json.list {} } },
  }
  local streams = {
    event = stream { delta { content = "I will" }, { error = failed } },
    choice = stream { delta { content = "I will" }, { choices = { { delta = {}, finish_reason = "error", error = failed } } } },
    named = { type = "text/event-stream", body = 'event: error\ndata: {"message": "overloaded"}\n\n' },
    text = { type = "text/event-stream", body = "event: error\ndata: overloaded\n\n" },
    in_a_delta = stream { delta { error = { message = "lost" } }, finish "stop" },
  }
  server_kit.with(function(server)
    for kind, list in pairs { whole = bodies, stream = streams } do
      for name, answer in pairs(list) do
        local got = draw(server, { answer, DONE }, { stream = kind == "stream" })
        t.expect({ kind, name, got.drawn and got.drawn.text, got.counts.requests }, { kind, name, "Finished.", 2 })
        local episode = play(server, { answer }, { stream = kind == "stream", tries = 2 })
        t.expect({ kind, name, episode.ending, #episode.turns }, { kind, name, "env_error", 0 })
      end
    end
  end, "scripted.py")
end

function spec.an_error_of_null_is_none()
  server_kit.with(function(server)
    local got = draw(server, { whole({ content = "Finished.", error = json.null }, "stop", { error = json.null },
      { error = json.null }) })
    t.expect({ got.drawn.text, got.counts }, { "Finished.", { requests = 1 } })
  end, "scripted.py")
end

function spec.a_full_context_is_a_limit_in_the_words_of_every_server()
  server_kit.with(function(server)
    for name, answer in pairs(chunks.FULL) do
      local got = draw(server, { answer, DONE }, { stream = answer.stream })
      t.expect({ name, got.code, got.counts }, { name, "limit", { requests = 1, context_full = 1 } })
      t.expect({ name, play(server, { answer }, { stream = answer.stream }).ending }, { name, "token_limit" })
    end
  end, "scripted.py")
end

function spec.what_only_sounds_like_a_full_context_is_none()
  server_kit.with(function(server)
    for name, answer in pairs(chunks.NOT_FULL) do
      local got = draw(server, { answer }, { tries = 2 })
      t.expect({ name, got.code }, { name, "endpoint" })
    end
  end, "scripted.py")
end

function spec.an_answer_that_does_not_fit_beside_its_prompt_is_asked_for_shorter()
  server_kit.with(function(server)
    for name, answer in pairs(chunks.SHORTER) do
      local got = draw(server, { answer, DONE })
      t.expect({ name, got.drawn and got.drawn.text, got.counts }, { name, "Finished.", { requests = 2, shortened = 1 } })
      t.expect({ name, got.seen[2].body.max_tokens }, { name, answer.room })
    end
    -- A server that repeats itself is believed once.
    local got = draw(server, { chunks.SHORTER.vllm })
    t.expect({ got.code, got.counts }, { "limit", { requests = 2, shortened = 1, context_full = 1 } })
  end, "scripted.py")
end

function spec.empty_answers_are_asked_again_and_then_taken_with_a_label()
  server_kit.with(function(server)
    local empty = whole({ content = json.null }, "stop")
    local got = draw(server, { empty, DONE })
    t.expect({ got.drawn.text, got.counts }, { "Finished.", { requests = 2, retried_empty = 1 } })
    got = draw(server, { stream { finish "stop" }, stream { delta { content = "Finished." }, finish "stop" } }, { stream = true })
    t.expect({ got.drawn.text, got.counts }, { "Finished.", { requests = 2, retried_empty = 1 } })
    local episode, policy = play(server, { empty })
    t.expect({ episode.ending, episode.labels, policy.counts.retried_empty }, { "final_answer", { empty_answer = 1 }, 2 })
    -- Thoughts without an answer are the model's own doing.
    got = draw(server, { whole({ content = "", reasoning_content = "hm" }, "stop") })
    t.expect({ got.drawn.label, got.drawn.thought, got.counts }, { "empty_answer", "hm", { requests = 1 } })
    t.expect(draw(server, { whole({ content = "" }, "length") }).drawn.cut, true)
  end, "scripted.py")
end

function spec.a_filter_of_the_provider_is_no_answer_and_a_refusal_of_the_model_is_one()
  server_kit.with(function(server)
    local filtered = whole({ content = "I will" }, "content_filter")
    local refused = { status = 400, body = { error = { code = "content_filter", message = "The response was filtered" } } }
    for name, answer in pairs { in_the_choice = filtered, of_the_prompt = refused,
      in_capitals = whole({ content = "" }, "SAFETY") } do
      local got = draw(server, { answer, DONE })
      t.expect({ name, got.drawn.text, got.counts }, { name, "Finished.", { requests = 2, retried_filtered = 1 } })
      local episode, policy = play(server, { answer })
      t.expect({ name, episode.ending, policy.counts.requests }, { name, "env_error", 3 })
    end
    for name, message in pairs { field = { content = json.null, refusal = "I cannot help." },
      finish = { content = "I cannot help." } } do
      local episode = play(server, { whole(message, name == "finish" and "refusal" or "stop") })
      t.expect({ name, episode.ending, episode.turns[1].text, episode.labels }, { name, "final_answer", "I cannot help.",
        { refusal = 1 } })
    end
  end, "scripted.py")
end

function spec.fields_of_a_provider_go_back_unchanged()
  local details = { { type = "reasoning.text", text = "hm", format = "x", index = 0 },
    { type = "reasoning.encrypted", data = "AAA=", id = "r1", index = 1, summary = json.list {} } }
  local signed = { google = { thought_signature = "SIG" } }
  local message = { content = json.null, reasoning_content = "hm", reasoning_details = details, thinking_blocks = {
    { type = "thinking", thinking = "hm", signature = "S" } }, tool_calls = { { id = "a", type = "function",
    extra_content = signed, ["function"] = { name = "Read", arguments = '{ "file_path": "/a" }', thought = "T" } } } }
  server_kit.with(function(server)
    local _, _, seen = play(server, { whole(message, "tool_calls"), DONE })
    local back = seen()[2].body.messages[3]
    t.expect({ back.role, back.reasoning_content, back.thinking_blocks }, { "assistant", "hm", message.thinking_blocks })
    t.expect(json.encode(back.reasoning_details), json.encode(details))
    t.expect(back.tool_calls, { { id = "a", type = "function", extra_content = signed,
      ["function"] = { name = "Read", arguments = '{ "file_path": "/a" }', thought = "T" } } })
    t.expect(seen()[2].body.messages[4], { role = "tool", tool_call_id = "a", content = "done" })
    -- Parts of a content go back as parts.
    local parts = { { type = "thinking", thinking = { { type = "text", text = "hm" } } }, { type = "text", text = "I look." } }
    local episode
    episode, _, seen = play(server, { whole({ content = parts, tool_calls = message.tool_calls }, "tool_calls"), DONE })
    t.expect({ episode.turns[1].text, episode.turns[1].thought, seen()[2].body.messages[3].content }, { "I look.", "hm", parts })
    -- What OpenAI's own servers send, and do not take back.
    _, _, seen = play(server, { whole({ content = "", refusal = json.null, annotations = json.list {}, audio = json.null,
      tool_calls = message.tool_calls }, "tool_calls"), DONE })
    back = seen()[2].body.messages[3]
    t.expect({ back.refusal, back.annotations, back.audio, back.content }, { nil, nil, nil, "" })
  end, "scripted.py")
end

function spec.a_field_that_a_server_does_not_take_back_is_left_out_and_one_that_it_misses_is_given()
  server_kit.with(function(server)
    local call = { { id = "a", type = "function", ["function"] = { name = "Read", arguments = READ } } }
    local first = whole({ content = "", reasoning = "hm", tool_calls = call }, "tool_calls")
    local _, policy, seen = play(server, { first, { status = 400, body = { error = {
      message = "'messages.2' : property 'reasoning' is unsupported" } } }, DONE })
    t.expect(policy.counts, { requests = 3, refused_reasoning = 1 })
    t.expect({ seen()[2].body.messages[3].reasoning, seen()[3].body.messages[3].reasoning }, { "hm" })
    local episode
    episode, policy, seen = play(server, { whole({ content = "", tool_calls = call }, "tool_calls"), { status = 400,
      body = { error = { message = "The `reasoning_content` in the thinking mode must be passed back to the API." } } }, DONE })
    t.expect({ episode.ending, policy.counts }, { "final_answer", { requests = 3, required_reasoning_content = 1 } })
    t.expect(seen()[3].body.messages[3].reasoning_content, "")
  end, "scripted.py")
end

function spec.tokens_and_prices_are_counted_whatever_they_are_called()
  local names = {
    openai = { prompt_tokens = 100, completion_tokens = 10, prompt_tokens_details = { cached_tokens = 40 } },
    deepseek = { prompt_tokens = 100, completion_tokens = 10, prompt_cache_hit_tokens = 40, prompt_cache_miss_tokens = 60 },
    anthropic = { input_tokens = 50, output_tokens = 10, cache_read_input_tokens = 40, cache_creation_input_tokens = 10 },
    thoughts_apart = { prompt_tokens = 100, completion_tokens = 2, total_tokens = 110,
      prompt_tokens_details = { cached_tokens = 40 }, completion_tokens_details = { reasoning_tokens = 8 } },
  }
  server_kit.with(function(server)
    for name, counted in pairs(names) do
      local got = draw(server, { whole({ content = "Finished." }, "stop", nil, { usage = counted }) },
        { prices = { ["n*"] = { input = 9, output = 9 }, ["m*"] = { input = 1, output = 10, cached = 0.1 } } })
      t.expect({ name, got.record.usage.prompt_tokens, got.record.usage.completion_tokens, got.record.usage.cached_tokens },
        { name, 100, 10, 40 })
      t.is_true(math.abs(got.record.usage.cost - (60 + 4 + 100) / 1e6) < 1e-12, name)
    end
    local list = { delta { content = "Finished." }, finish "stop" }
    list[2].choices[1].usage = { prompt_tokens = 7, completion_tokens = 3 }
    t.expect(draw(server, { stream(list) }, { stream = true }).record.usage.prompt_tokens, 7)
    local got = draw(server, { whole({ content = "Finished." }, "stop", nil, { usage = { prompt_tokens = 3, completion_tokens = 1,
      cost = 0.25 } }) })
    t.expect({ got.record.usage.cost, got.record.usage.uncounted_answers }, { 0.25 })
    t.expect(draw(server, { whole({ content = "Finished." }, "stop") }).record.usage.uncounted_answers, 1)
    -- What was thrown away was paid too.
    got = draw(server, { whole({ content = "" }, "content_filter", nil, { usage = names.openai }), whole({ content = "." }, "stop",
      nil, { usage = names.openai }) })
    t.expect(got.record.usage.prompt_tokens, 200)
  end, "scripted.py")
end

function spec.prices_come_from_a_command_line_or_a_file()
  t.expect(usage.parse_prices "3,15", { input = 3, output = 15 })
  t.expect(usage.parse_prices "3,15,0.3", { input = 3, output = 15, cached = 0.3 })
  local fs = require "khost.fs"
  local path = ("%s/khost-prices.json"):format(fs.env "TMPDIR" or "/tmp")
  assert(fs.write(path, '{"big-*": {"input": 3, "output": 15}, "big-1": {"input": 1, "output": 2, "cached": 0}}'))
  local prices = assert(usage.parse_prices(path))
  t.expect({ usage.price_of(prices, "big-2").input, usage.price_of(prices, "big-1").input, usage.price_of(prices, "x") },
    { 3, 1 })
  assert(fs.write(path, '{"big": {"input": "3"}}'))
  t.is_true(select(2, usage.parse_prices(path)):find("the price of big must be", 1, true))
  t.is_true(select(2, usage.parse_prices "3"):find("IN,OUT", 1, true))
end

function spec.a_server_that_says_when_is_asked_then_and_one_that_says_never_is_not()
  server_kit.with(function(server)
    local waits = {
      milliseconds = { status = 429, headers = { ["retry-after-ms"] = "400" }, body = { error = { message = "slow" } } },
      in_words = { status = 429, body = { error = { message = "Rate limit reached. Please try again in 400ms." } } },
      as_detail = { status = 429, body = { { error = { code = 429, message = "exhausted", details = {
        { ["@type"] = "type.googleapis.com/google.rpc.RetryInfo", retryDelay = "0.4s" } } } } } },
      seconds = { status = 503, headers = { ["Retry-After"] = "1" }, body = "busy" },
    }
    for name, answer in pairs(waits) do
      local got = draw(server, { answer, DONE })
      t.expect({ name, got.drawn and got.drawn.text }, { name, "Finished." })
      local waited = got.seen[2].at - got.seen[1].at
      t.is_true(waited >= 0.35 and waited < 3, ("%s: %g s"):format(name, waited))
    end
    local never = {
      quota = { status = 429, body = { error = { message = "You exceeded your current quota", code = "insufficient_quota" } } },
      unpaid = { status = 402, body = { error = { message = "Insufficient Balance" } } },
      said_so = { status = 500, headers = { ["x-should-retry"] = "false" }, body = { error = { message = "no" } } },
      unknown_model = { status = 404, body = { error = { message = "model 'm' not found" } } },
    }
    for name, answer in pairs(never) do
      local episode, policy = play(server, { answer, DONE })
      t.expect({ name, episode.ending, policy.counts }, { name, "env_error", { requests = 1, refused = 1 } })
    end
  end, "scripted.py")
end

function spec.arguments_of_any_form_are_read_or_said()
  server_kit.with(function(server)
    local function one(arguments)
      local got = draw(server, { whole({ content = "", tool_calls = { { id = "a", ["function"] = { name = "Read",
        arguments = arguments } } } }, "tool_calls") })
      return calls_of(got)[1], got.record.messages[3].tool_calls[1]["function"].arguments
    end
    t.expect(one(json.encode(READ)), { "Read", READ })
    t.expect(one(json.null), { "Read", "{}" })
    t.expect(one "null", { "Read", "{}" })
    for _, wrong in ipairs { "[1]", "7", '{"a":' .. ("["):rep(1e4) .. ("]"):rep(1e4) .. "}", '{"file_path": ', "file_path=/a" } do
      local call, back = one(wrong)
      t.expect({ wrong, call[1], back }, { wrong, "malformed_call", "{}" })
    end
    local legacy = draw(server, { whole({ content = "", function_call = { name = "Read", arguments = READ } }, "function_call") })
    t.expect(calls_of(legacy), { { "Read", READ } })
    local many = {}
    for index = 1, 100 do many[index] = piece(nil, "c" .. index, "Read", READ) end
    local got = draw(server, { whole({ content = "", tool_calls = many }, "tool_calls") })
    t.expect({ #got.action.calls, got.drawn.label }, { 64, "too_many_calls" })
  end, "scripted.py")
end

return spec
