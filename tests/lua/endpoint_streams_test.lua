-- policies.endpoint against a server process that streams as servers of all kinds do, byte by byte.
local chunks = require "tests.lua.data.chunks"
local json = require "khost.json"
local kit = require "tests.lua.endpoint_kit"
local answers = require "policies.endpoint.answer"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local t = require "tests.lua.harness"

local delta, finish, stream = chunks.delta, chunks.finish, chunks.stream
local draw, play, calls_of, piece = kit.draw, kit.play, kit.calls_of, kit.piece
local DONE, TWO, READ, GLOB = kit.DONE, kit.TWO, kit.READ, kit.GLOB

local spec = {}

function spec.streamed_calls_are_told_apart_whatever_index_and_id_they_have()
  local streams = {
    no_index = { { piece(nil, "a", "Read", "") }, { piece(nil, nil, nil, READ) }, { piece(nil, "b", "Glob", "") },
      { piece(nil, nil, nil, GLOB) } },
    same_index = { { piece(0, "a", "Read", READ:sub(1, 7)) }, { piece(0, nil, nil, READ:sub(8)) },
      { piece(0, "b", "Glob", GLOB:sub(1, 3)) }, { piece(0, nil, nil, GLOB:sub(4)) } },
    one_delta = { { piece(nil, "a", "Read", READ), piece(nil, "b", "Glob", GLOB) } },
    one_delta_of_index_0 = { { piece(0, "a", "Read", READ), piece(0, "b", "Glob", GLOB) } },
    no_ids = { { piece(0, nil, "Read", READ) }, { piece(0, nil, "Glob", GLOB) } },
    empty_ids = { { piece(0, "", "Read", "") }, { piece(0, "", "", READ) }, { piece(1, "", "Glob", GLOB) } },
    no_index_no_ids = { { piece(nil, nil, "Read", READ) }, { piece(nil, nil, "Glob", "") }, { piece(nil, nil, nil, GLOB) } },
    one_id_for_both = { { piece(0, "a", "Read", READ) }, { piece(1, "a", "Glob", GLOB) } },
    one_id_and_no_index = { { piece(nil, "a", "Read", READ) }, { piece(nil, "a", "Glob", GLOB) } },
    from_one = { { piece(1, "a", "Read", READ) }, { piece(2, "b", "Glob", GLOB) } },
    index_as_text = { { piece("0", "a", "Read", "") }, { piece("1", "b", "Glob", GLOB) }, { piece("0", nil, nil, READ) } },
    interleaved = { { piece(0, "a", "Read", "") }, { piece(1, "b", "Glob", "") }, { piece(0, nil, nil, READ) },
      { piece(1, nil, nil, GLOB) } },
    id_in_each_piece = { { piece(0, "a", "Read", READ:sub(1, 5)) }, { piece(0, "a", "Read", READ:sub(6)) },
      { piece(1, "b", "Glob", GLOB) } },
    other_id_in_each_piece = { { piece(0, "a", "Read", "") }, { piece(0, "x", nil, READ:sub(1, 5)) },
      { piece(0, "y", nil, READ:sub(6)) }, { piece(1, "b", "Glob", GLOB) } },
    id_comes_late = { { piece(0, nil, "Read", "") }, { piece(0, "a", nil, READ) }, { piece(1, "b", "Glob", GLOB) } },
    said_again_at_the_end = { { piece(0, "a", "Read", READ) }, { piece(1, "b", "Glob", GLOB) },
      { piece(0, "a", "Read", READ), piece(1, "b", "Glob", GLOB) } },
    name_in_pieces = { { piece(0, "a", "Re", "") }, { piece(0, nil, "ad", "") }, { piece(0, nil, nil, READ) },
      { piece(1, "b", "Glob", GLOB) } },
    arguments_as_data = { { piece(0, "a", "Read", { file_path = "/a" }) }, { piece(1, "b", "Glob", { pattern = "*.cu" }) } },
  }
  server_kit.with(function(server)
    for name, deltas in pairs(streams) do
      local list = { delta { role = "assistant", content = "" } }
      for _, tool_calls in ipairs(deltas) do list[#list + 1] = delta { tool_calls = tool_calls } end
      list[#list + 1] = finish "tool_calls"
      local got = draw(server, { stream(list) }, { stream = true })
      t.expect({ name, got.action and got.action.kind, calls_of(got) }, { name, "act", TWO })
      local ids = got.drawn.calls
      t.is_true(ids[1].id ~= ids[2].id, name .. ": one id for two calls")
    end
  end, "scripted.py")
end

function spec.two_calls_of_one_tool_are_two()
  server_kit.with(function(server)
    for _, id in ipairs { "same", "other", "none" } do
      local first, second = id ~= "none" and "a" or nil, id == "other" and "b" or id == "same" and "a" or nil
      local got = draw(server, { stream { delta { tool_calls = { piece(0, first, "Read", READ) } },
        delta { tool_calls = { piece(0, second, "Read", '{"file_path":"/b"}') } }, finish "tool_calls" } }, { stream = true })
      t.expect({ id, calls_of(got) }, { id, { { "Read", READ }, { "Read", '{"file_path":"/b"}' } } })
    end
  end, "scripted.py")
end

function spec.calls_without_arguments_ids_and_indices_are_told_apart()
  server_kit.with(function(server)
    local again = { piece(0, nil, "Read", "") }
    local got = draw(server, { stream { delta { tool_calls = again }, delta { tool_calls = { piece(0, nil, nil, "{}") } },
      delta { tool_calls = again }, delta { tool_calls = { piece(0, nil, nil, "{}") } }, finish "tool_calls" } }, { stream = true })
    t.expect(calls_of(got), { { "Read", "{}" }, { "Read", "{}" } })
  end, "scripted.py")
end

function spec.streams_of_any_form_are_read()
  local events = { delta { role = "assistant", content = "A \208\182 " }, delta { content = "\240\159\154\128" }, finish "stop" }
  local lines = chunks.lines(events)
  local forms = {
    carriage_returns = { body = (lines:gsub("\n", "\r\n")) },
    bare_carriage_returns = { body = (lines:gsub("\n", "\r")) },
    comments = { body = ": OPENROUTER PROCESSING\n\n" .. lines:gsub("\n\n", "\n\n: ping\n\n") },
    no_blank_behind_the_colon = { body = (lines:gsub("data: ", "data:")) },
    named_events = { body = (lines:gsub("data: ", "event: chunk\nid: 7\nretry: 10\ndata: ")) },
    byte_order_mark = { body = "\239\187\191" .. lines },
    data_over_lines = { body = (lines:gsub('"choices":%[', '"choices":\ndata: [\ndata: ')) },
    no_empty_lines = { body = (lines:gsub("\n\n", "\n")) },
    no_done = { body = (lines:gsub("data: %[DONE%]\n\n", "")) },
    no_line_end_at_the_end = { body = (lines:gsub("data: %[DONE%]\n\n", ""):gsub("\n\n$", "")) },
    byte_by_byte = { body = lines, chunk = 1 },
    cut_in_characters = { body = lines, chunk = 7 },
    kept_open = { body = lines, hold = 20 },
    another_type = { body = lines, type = "text/plain" },
    no_type = { body = lines, type = false },
  }
  server_kit.with(function(server)
    for name, answer in pairs(forms) do
      if answer.type == nil then answer.type = "text/event-stream; charset=utf-8" end
      local got = draw(server, { answer }, { stream = true })
      t.expect({ name, got.message, got.drawn and got.drawn.text, got.counts }, { name, nil, "A \208\182 \240\159\154\128",
        { requests = 1 } })
    end
  end, "scripted.py")
end

function spec.a_content_may_change_between_text_and_parts()
  local function part(text) return delta { content = { { type = "text", text = text } } } end
  local thought = delta { content = { { type = "thinking", thinking = { { type = "text", text = "hm" } } } } }
  local ends = finish "stop"
  server_kit.with(function(server)
    for name, list in pairs { text_first = { delta { content = "" }, delta { content = "a" }, part "b", delta { content = "c" }, ends },
      thought_first = { thought, thought, delta { content = "a" }, part "bc", ends }, parts = { part "ab", part "c", ends } } do
      local got = draw(server, { stream(list) }, { stream = true })
      t.expect({ name, got.drawn and got.drawn.text, got.drawn and got.drawn.thought }, { name, "abc",
        name == "thought_first" and "hmhm" or nil })
    end
  end, "scripted.py")
end

function spec.what_stands_in_a_text_ends_no_stream()
  server_kit.with(function(server)
    local text = "ends with\ndata: [DONE]\n\ndata: x [DONE]"
    local got = draw(server, { stream { delta { content = text }, delta { content = "!" }, finish "stop" } }, { stream = true })
    t.expect({ got.drawn.text, got.counts }, { text .. "!", { requests = 1 } })
  end, "scripted.py")
end

function spec.halves_of_characters_are_no_failure()
  server_kit.with(function(server)
    local body = 'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"\\ude80 \\\\ud83d '
      .. '\\ud83d\\ude80"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    local got = draw(server, { { type = "text/event-stream", body = body } }, { stream = true })
    t.expect({ got.message, got.drawn and got.drawn.text },
      { nil, "a\239\191\189\239\191\189 \\ud83d \240\159\154\128" })
  end, "scripted.py")
end

function spec.servers_that_do_not_stream_are_understood()
  server_kit.with(function(server)
    local got = draw(server, { DONE }, { stream = true })
    t.expect({ got.drawn.text, got.counts }, { "Finished.", { requests = 1 } })
    got = draw(server, { { status = 400, body = { error = { message = "stream is not supported by this model" } } }, DONE },
      { stream = true })
    t.expect({ got.drawn.text, got.counts }, { "Finished.", { requests = 2, refused_stream = 1 } })
    t.expect({ got.seen[2].body.stream, got.seen[2].body.stream_options }, {})
    local last = stream { delta {}, { choices = { { index = 0, message = { content = "All." }, finish_reason = "stop" } } } }
    t.expect(draw(server, { last }, { stream = true }).drawn.text, "All.")
  end, "scripted.py")
end

function spec.streams_that_end_early_are_asked_for_again()
  server_kit.with(function(server)
    local list = chunks.lines { delta { content = "I will" }, delta { tool_calls = { piece(0, "a", "Read", '{"fi') } } }
    local whole_stream = stream { delta { content = "Finished." }, finish "stop" }
    local cuts = {
      closed = { type = "text/event-stream", body = (list:gsub("data: %[DONE%]\n\n", "")) },
      in_an_event = { type = "text/event-stream", body = list:sub(1, 60), chunk = 20 },
      in_the_transfer = { type = "text/event-stream", body = list, chunk = 20, cut = 60 },
    }
    for name, answer in pairs(cuts) do
      local got = draw(server, { answer, whole_stream }, { stream = true })
      t.expect({ name, got.drawn and got.drawn.text, got.counts.requests }, { name, "Finished.", 2 })
    end
  end, "scripted.py")
end

function spec.streamed_fields_of_a_provider_go_back_as_if_they_had_come_whole()
  local function details(entry) return delta { reasoning_details = { entry } } end
  local list = {
    delta { role = "assistant", content = "", reasoning_content = "I " }, delta { reasoning_content = "think" },
    details { type = "reasoning.text", text = "I ", index = 0 }, details { type = "reasoning.text", text = "think", index = 0 },
    details { type = "reasoning.text", index = 0, signature = "S", text = json.null },
    details { type = "reasoning.encrypted", data = "A", index = 1 },
    delta { thinking_blocks = { { type = "thinking", thinking = "I " } } },
    delta { thinking_blocks = { { type = "thinking", thinking = "think" } } },
    delta { thinking_blocks = { { type = "thinking", thinking = "", signature = "S" } } },
    delta { thinking_blocks = { { type = "thinking", thinking = "More" } } },
    delta { tool_calls = { { index = 0, id = "a", extra_content = { google = { thought_signature = "SIG" } },
      ["function"] = { name = "Read", arguments = READ:sub(1, 4) } } } },
    delta { tool_calls = { { index = 0, ["function"] = { arguments = READ:sub(5) } } } },
    finish "tool_calls",
  }
  server_kit.with(function(server)
    local episode, _, seen = play(server, { stream(list), stream { delta { content = "Finished." }, finish "stop" } },
      { stream = true })
    t.expect({ episode.ending, episode.turns[1].thought }, { "final_answer", "I think" })
    local back = seen()[2].body.messages[3]
    t.expect(back.reasoning_details, { { type = "reasoning.text", text = "I think", index = 0, signature = "S" },
      { type = "reasoning.encrypted", data = "A", index = 1 } })
    t.expect(back.thinking_blocks, { { type = "thinking", thinking = "I think", signature = "S" },
      { type = "thinking", thinking = "More" } })
    t.expect({ back.reasoning_content, back.content, back.tool_calls[1].extra_content }, { "I think", "",
      { google = { thought_signature = "SIG" } } })
  end, "scripted.py")
end

function spec.others_go_on_while_a_stream_of_many_events_is_read()
  local turns, over = 0, false
  local other = sched.spawn(function()
    while not over do
      turns = turns + 1
      sched.sleep(0)
    end
  end)
  local found, problem = answers.read(("data: {}\n\n"):rep(100000) .. ": comment\n")
  over = true
  other:wait()
  t.expect({ found, problem.message }, { nil, "the stream ended early" })
  t.is_true(turns >= 40, "turns of others: " .. turns)
  found, problem = answers.read('{"choices": [' .. ("{},"):rep(200000) .. "{}]}")
  t.expect(found, nil)
  t.is_true(problem.message:find("more than 100000 lists, objects and fields", 1, true), problem.message)
end

return spec
