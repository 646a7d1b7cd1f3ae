-- Token-step episodes of `khost serve`: real sockets, real workspaces, the one player, a client that draws tokens.
local fs = require "khost.fs"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local with = require("tests.lua.episodes_kit").with

local spec = {}

local TOKEN, OTHER = ("a"):rep(32), ("b"):rep(32)
local TOKENS = ([[
[clients.trainer]
token = "%s"
rights = ["candidates", "evidence"]
episodes = 2
[clients.agent]
token = "%s"
rights = ["candidates", "metrics"]
]]):format(TOKEN, OTHER)
local ANSWER = "```cpp\nint b;\n```"

local function bearer(token) return { Authorization = "Bearer " .. token } end

local function right()
  return { status = "ok", stage = "time", reason = "", detail = "", correct = true, text = "seen", ok = true, times = {},
    speedup = {}, faster = {}, evidence = { tolerance = "calibrated" }, wall_s = {} }
end

local function joined(first, ...)
  local list = { unpack(first) }
  for _, more in ipairs { ... } do
    for _, token in ipairs(more) do list[#list + 1] = token end
  end
  return list
end

local function ones(count, bit)
  local list = {}
  for index = 1, count do list[index] = bit end
  return list
end

function spec.a_single_answer_is_judged_and_kept_with_the_tokens_that_were_drawn()
  with({}, function(service)
    local status, begun = service.begin { limits = { turns = 1 } }
    t.expect({ status, begun.step, begun.done, #begun.append }, { 200, 0, false, 0 })
    t.is_true(#begun.id == 32 and #begun.tokens == begun.token_count and begun.max_tokens == 4096)
    t.expect(begun.stop_token_ids, { service.tokenizer:special "<|im_end|>", service.tokenizer:special "<|endoftext|>" })
    local text = service.tokenizer:decode(begun.tokens, { special = true })
    t.is_true(text:find(kit.SOURCE, 1, true) and text:find("<|im_start|>assistant\n$"), text)
    local step = service.says(1, ANSWER)
    local _, answer = service.step(begun.id, step)
    t.expect({ answer.done, answer.reward, answer.void, answer.ending, answer.append, answer.step },
      { true, -1, nil, "turn_limit", {}, 1 })
    t.expect(answer.labels, ones(#step.tokens, 1))
    t.expect(service.asked[1].body.files["kernels/k.cpp"], "int b;\n")
    local kept = service.stored()[1]
    t.expect(kept.tokens, joined(begun.tokens, step.tokens))
    t.expect(kept.mask, joined(ones(#begun.tokens, 0), ones(#step.tokens, 1)))
    t.expect({ kept.logprobs[#kept.logprobs], kept.version, kept.step, kept.stage, kept.policy, kept.client },
      { -#step.tokens / 64, 3, 3, "serve", "remote local", "local" })
    t.expect({ answer.trajectory, answer.token_count }, { kept.id, #kept.tokens })
    t.is_true(service.app.usage.totals["local"].disk_mb * 2 ^ 20 >= 24 * #kept.tokens)
    t.expect(answer.tokens_hash, fs.sha256(table.concat(kept.tokens, ",")))
  end)
end

function spec.what_the_client_puts_together_is_what_the_player_has_over_several_turns_and_versions()
  local wrong = true
  with({ answer = function(kind)
    if kind == "verify" and wrong then
      wrong = false
      return kit.verdict("wrong", "verify", "mismatch", { text = "seen", ok = false })
    end
    return right()
  end }, function(service)
    local _, begun = service.begin { limits = { turns = 5, answer_tokens = 200 } }
    local tokens, labels = begun.tokens, ones(#begun.tokens, 0)
    local answer
    for number, text in ipairs { ANSWER, "no block", "done" } do
      local step = service.says(number, text, { version = number == 3 and 8 or 7 })
      _, answer = service.step(begun.id, step)
      t.expect({ answer.step, answer.done, #answer.labels }, { number, number == 3, #step.tokens + #answer.append })
      tokens, labels = joined(tokens, step.tokens, answer.append), joined(labels, answer.labels)
      local said = service.tokenizer:decode(answer.append)
      t.is_true(number ~= 1 or said:find("wrong: mismatch", 1, true), said)
      t.is_true(number ~= 2 or said:find("format error", 1, true), said)
    end
    t.expect({ answer.reward, answer.ending, answer.turns }, { 1, "final_answer", 3 })
    local kept = service.stored()[1]
    t.expect({ kept.tokens, kept.mask, kept.versions, kept.step }, { tokens, labels, { 7, 7, 8 }, 7 })
  end)
end

function spec.an_episode_with_tools_has_a_real_workspace()
  with({ answer = right }, function(service)
    local _, begun = service.begin { format = "hermes", limits = { turns = 4 } }
    t.is_true(service.tokenizer:decode(begun.tokens):find('"name":"Bash"', 1, true))
    local function call(name, arguments)
      return ("<tool_call>\n%s\n</tool_call>"):format(json.encode { name = name, arguments = arguments })
    end
    local _, answer = service.step(begun.id, service.says(1, call("Write", { file_path = "/workspace/kernels/k.cpp",
      content = "int of_tools;\n" })))
    t.is_true(not answer.done)
    _, answer = service.step(begun.id, service.says(2, call("Bash", { command = "cat kernels/k.cpp; ls" })))
    local said = service.tokenizer:decode(answer.append)
    t.is_true(said:find("int of_tools;", 1, true) and said:find("model.py", 1, true), said)
    _, answer = service.step(begun.id, service.says(3, "It stands there."))
    t.expect({ answer.done, answer.reward, answer.ending }, { true, 1, "final_answer" })
    local kept = service.stored()[1]
    t.expect({ kept.turns[1].calls[1].name, kept.verdict.files["kernels/k.cpp"] }, { "Write", "int of_tools;\n" })
  end)
end

function spec.a_step_that_is_sent_twice_is_taken_once_and_answered_twice()
  local open = false
  with({ answer = function()
    while not open do sched.sleep(0.005) end
    return kit.wrong()
  end }, function(service)
    local _, begun = service.begin { limits = { turns = 1 } }
    local step, bodies = service.says(1, ANSWER), {}
    local tasks = {}
    for index = 1, 3 do
      tasks[index] = sched.spawn(function()
        local _, _, got = service.step(begun.id, step)
        bodies[index] = got.body
      end)
    end
    t.eventually(function() return #service.asked == 1 end)
    t.expect({ select(2, service.step(begun.id, service.says(2, "x"))).error.code }, { "early" })
    open = true
    for _, task in ipairs(tasks) do task:wait() end
    t.is_true(#bodies == 3 and bodies[1] == bodies[2] and bodies[2] == bodies[3])
    local _, _, again = service.step(begun.id, step)
    t.expect({ again.body == bodies[1], #service.asked, #service.stored() }, { true, 1, 1 })
  end)
end

function spec.late_early_and_changed_steps_are_told_apart()
  with({}, function(service)
    local _, begun = service.begin()
    local function refused(body, status, code)
      local got, answer = service.step(begun.id, body)
      t.expect({ got, answer.error and answer.error.code }, { status, code })
    end
    refused(service.says(2, ANSWER), 409, "early")
    t.expect((service.step(begun.id, service.says(1, ANSWER))), 200)
    refused(service.says(1, "done"), 409, "conflict")
    t.expect((service.step(begun.id, service.says(2, ANSWER .. "\n"))), 200)
    refused(service.says(1, ANSWER), 409, "late")
    t.expect((service.step(begun.id, service.says(3, "done"))), 200)
    refused(service.says(4, "done"), 410, "ended")
    t.expect(#service.stored(), 1)
  end)
end

function spec.to_other_clients_an_episode_does_not_exist()
  with({ clients = TOKENS }, function(service)
    local _, begun = service.begin({}, bearer(TOKEN))
    for _, headers in ipairs { bearer(OTHER), bearer(TOKEN) } do
      local id = headers.Authorization:find(OTHER, 1, true) and begun.id or ("0"):rep(32)
      local status, answer = service.step(id, service.says(1, ANSWER), headers)
      t.expect({ status, answer.error.code }, { 404, "no_episode" })
      t.expect((service.delete(id, headers)), 404)
    end
    t.expect({ (service.step(begun.id, service.says(1, ANSWER))), (service.begin()) }, { 401, 401 })
    t.expect((service.send("/v1/episodes/" .. begun.id, nil, bearer(TOKEN))).status, 405)
    t.expect((service.send("/v1/episodes/" .. begun.id .. "/x", "{}", bearer(TOKEN))).status, 404)
    t.expect((service.step(begun.id, service.says(1, ANSWER), bearer(TOKEN))), 200)
  end)
end

function spec.what_cannot_be_begun_is_told_with_its_reason()
  with({}, function(service)
    local function refused(more, part, status)
      local got, answer = service.begin(more)
      t.is_true(got == (status or 400) and answer.error.message:find(part, 1, true), json.encode(answer))
    end
    refused({ tokenizer = "/etc" }, "known are toy")
    refused({ tokenizer = 3 }, "known are toy")
    refused({ format = "openai" }, "hermes, xml, bash, files or tiny")
    refused({ format = "tiny" }, "the tokenizer has no token")
    refused({ target = "cuda" }, "target cpu")
    refused({ scheme = "no_such" }, "no reward scheme")
    refused({ limits = { turn = 3 } }, "unknown limit 'turn'")
    refused({ limits = { turns = 0 } }, "limits.turns: a whole number from 1 to 1000")
    refused({ limits = { tokens = 20 } }, "limits.tokens = 20: the prompt alone has")
    refused({ more = 1 }, "unknown field")
    refused({ task = "no_such" }, "no loaded task", 404)
    refused({ task = { source = "x" } }, "may not send", 403)
    t.expect({ service.app.episodes.open, #service.stored() }, { 0, 0 })
  end)
end

function spec.tokens_that_cannot_be_those_of_an_answer_are_refused_and_may_be_sent_again()
  with({}, function(service)
    local stop = service.tokenizer:special "<|im_end|>"
    local _, begun = service.begin { limits = { turns = 1, answer_tokens = 40 } }
    local function refused(more, part)
      local status, answer = service.step(begun.id, service.says(1, "x", more))
      t.is_true(status == 400 and answer.error.message:find(part, 1, true), json.encode(answer))
    end
    refused({ tokens = { 5, 6 }, logprobs = { -1, -1 } }, "none of the stop_token_ids")
    refused({ tokens = { 5, stop, 6, stop }, logprobs = { -1, -1, -1, -1 } }, "ends an answer, and 2 tokens are behind")
    refused({ tokens = { 5, stop }, logprobs = { -1, -1 }, finish = "length" }, "finish must be stop")
    refused({ tokens = { 100000, stop }, logprobs = { -1, -1 } }, "the tokenizer has")
    refused({ tokens = ones(41, 5), logprobs = ones(41, -1), finish = "length" }, "at most 40 may be drawn")
    refused({ logprobs = { -1 } }, "logprobs: one for each")
    refused({ tokens = { 5.5, stop }, logprobs = { -1, -1 } }, "tokens[0]: a token id")
    refused({ tokens = { 5, stop }, logprobs = { 1, -1 } }, "logprobs[0]: a number of at most 0")
    refused({ tokens = {}, logprobs = {} }, "at least one")
    refused({ finish = "eos" }, "stop, length or failed")
    refused({ step = 0 }, "1 for the first")
    refused({ version = { 1 } }, "version")
    t.expect((service.step(begun.id, "{")), 400)
    t.expect(select(2, service.step(begun.id, service.says(1, ANSWER))).done, true)
  end)
end

-- A server of messages: its tokens are bytes, and its template is not khost's.
local function rendered(messages)
  local ids = {}
  for _, message in ipairs(messages) do
    for _, byte in ipairs { (message.role .. ":" .. message.content .. "\n"):byte(1, -1) } do ids[#ids + 1] = byte end
  end
  return ids
end

function spec.without_a_tokenizer_messages_go_out_and_the_servers_ids_are_kept()
  with({ answer = right }, function(service)
    local status, begun = service.ask("/v1/episodes", { task = "task", format = "hermes", limits = { tokens = 60000 } })
    t.expect({ status, #begun.messages, begun.messages[1].role, begun.messages[2].role, begun.tokens },
      { 200, 2, "system", "user", nil })
    t.is_true(begun.messages[1].content:find('"name":"Bash"', 1, true))
    local messages = begun.messages
    local kept, answer, _
    local function step(number, text, more)
      local prompt, drawn = rendered(messages), rendered { { role = "assistant", content = text } }
      local body = { step = number, text = text, prompt_tokens = prompt, tokens = drawn, logprobs = ones(#drawn, -1),
        finish = "stop", version = "w3" }
      for name, value in pairs(more or {}) do body[name] = value end
      local got, content = service.step(begun.id, body)
      if got == 200 then
        messages[#messages + 1] = { role = "assistant", content = text }
        for _, message in ipairs(content.messages) do messages[#messages + 1] = message end
      end
      return got, content
    end
    local call = json.encode { name = "Bash", arguments = { command = "printf 'int k;' > kernels/k.cpp; echo seen" } }
    _, answer = step(1, "<tool_call>\n" .. call .. "\n</tool_call>")
    t.expect({ answer.done, #answer.messages, answer.messages[1].role, answer.append }, { false, 1, "user", nil })
    t.is_true(answer.messages[1].content:find("seen", 1, true), answer.messages[1].content)
    local got, refused = step(2, "It stands there.", { prompt_tokens = { 1, 2, 3 } })
    t.is_true(got == 409 and refused.error.message:find("prompt_tokens[0]: the prompt does not continue", 1, true))
    got, refused = step(2, "It stands there.", { prompt_tokens = {} })
    t.is_true(got == 400 and refused.error.message:find("prompt_tokens", 1, true), refused.error.message)
    _, answer = step(2, "It stands there.")
    t.expect({ answer.done, answer.reward, answer.messages }, { true, 1, {} })
    kept = service.stored()[1]
    t.expect({ kept.tokens, kept.versions, kept.verdict.files["kernels/k.cpp"] },
      { rendered(messages), { "w3", "w3" }, "int k;" })
    local drawn = 0
    for _, bit in ipairs(kept.mask) do drawn = drawn + bit end
    t.expect(drawn, #rendered { messages[3], messages[5] })
    -- Files need no tools, and a step of the other kind is refused.
    _, begun = service.ask("/v1/episodes", { task = "task", format = "files", limits = { turns = 1 } })
    t.is_true(begun.messages[2].content:find(kit.SOURCE, 1, true))
    t.expect((service.step(begun.id, service.says(1, ANSWER))), 400)
    messages = begun.messages
    _, answer = step(1, ANSWER)
    t.expect({ answer.done, answer.reward }, { true, 1 })
    t.expect((service.ask("/v1/episodes", { task = "task", format = "tiny" })), 400)
  end)
end

function spec.what_is_behind_the_prompt_may_be_limited()
  with({}, function(service)
    local _, begun = service.begin { limits = { response_tokens = 60 } }
    t.expect(begun.max_tokens, 60)
    local _, answer = service.step(begun.id, service.says(1, "no block"))
    t.expect({ answer.done, answer.ending, answer.append, answer.reward }, { true, "token_limit", {}, -1 })
  end)
end

function spec.a_void_has_no_reward_and_says_why()
  with({ answer = function() return nil, "the judge died", "gone" end }, function(service)
    local _, begun = service.begin { limits = { turns = 1 } }
    local status, answer, got = service.step(begun.id, service.says(1, ANSWER))
    t.expect({ status, answer.done, answer.reward, answer.verdict.status }, { 200, true, nil, "void" })
    t.is_true(got.body:find('"reward":null', 1, true) and #answer.void > 0)
    _, begun = service.begin()
    _, answer = service.step(begun.id, { step = 1, finish = "failed", message = "the engine was restarted" })
    t.expect({ answer.ending, answer.reward }, { "env_error", nil })
    t.is_true(answer.error:find("the engine was restarted", 1, true), answer.error)
    local text = service.send("/metrics").body
    t.is_true(text:find('khost_episodes_void_total{ending="env_error"} 1', 1, true), text)
    t.expect({ service.stored()[1].verdict.status, service.stored()[2].status }, { "void", "env_error" })
  end)
end

function spec.an_episode_that_gets_no_step_in_time_ends_as_void()
  with({}, function(service)
    local _, begun = service.begin { limits = { idle_s = 1 } }
    t.expect(begun.expires_s, 1)
    t.eventually(function() return service.app.episodes.open == 0 end, 5)
    local status, answer = service.step(begun.id, service.says(1, ANSWER))
    t.expect({ status, answer.error.code }, { 410, "ended" })
    t.is_true(answer.error.message:find("no step came for 1 s", 1, true), answer.error.message)
    local kept = service.stored()[1]
    t.expect({ kept.status, kept.reward, kept.error }, { "env_error", nil, "no step came for 1 s" })
  end)
end

function spec.an_episode_that_was_given_up_leaves_nothing_open()
  with({}, function(service)
    local _, begun = service.begin { format = "hermes" }
    t.expect((service.delete(begun.id)), 200)
    t.eventually(function() return service.app.episodes.open == 0 end, 5)
    t.expect({ service.stored()[1].status, service.stored()[1].reward }, { "env_error", nil })
    t.expect({ (service.step(begun.id, service.says(1, ANSWER))), (service.delete(begun.id)),
      (service.delete(begun.id)) }, { 410, 200, 404 })
  end)
end

function spec.quotas_hold_for_episodes()
  local limited = TOKENS:gsub("episodes = 2", "episodes = 2\ndevice_s = 3")
  with({ clients = limited, most = 3, answer = function()
    local verdict = right()
    verdict.evidence = { tolerance = "calibrated", exclusive_s = 2 }
    return verdict
  end }, function(service)
    local mine, ids = bearer(TOKEN), {}
    for index = 1, 2 do ids[index] = select(2, service.begin({}, mine)).id end
    local status, answer, got = service.begin({}, mine)
    t.expect({ status, answer.error.code, got.headers["retry-after"] }, { 429, "quota", "5" })
    t.is_true(answer.error.message:find("episodes = 2", 1, true), answer.error.message)
    t.expect((service.begin({}, bearer(OTHER))), 200)
    t.expect(select(2, service.begin({}, bearer(OTHER))).error.code, "busy")
    -- Each verification costs 2 s of 3; the step that comes then is not taken.
    for number = 1, 2 do
      t.expect((service.step(ids[1], service.says(number, ("```cpp\nint b%d;\n```"):format(number)), mine)), 200)
    end
    status, answer, got = service.step(ids[1], service.says(3, "done"), mine)
    t.expect({ status, answer.error.code }, { 429, "quota" })
    t.is_true(tonumber(got.headers["retry-after"]) > 3400)
    t.expect(service.app.usage.totals.trainer.device_s, 4)
    service.app.usage.minutes.trainer = nil  -- the hour is over
    t.expect(select(2, service.step(ids[1], service.says(3, "done"), mine)).done, true)
  end)
end

function spec.a_drain_ends_open_episodes_as_void_and_keeps_them()
  local open = false
  with({ answer = function()
    while not open do sched.sleep(0.005) end
    return kit.wrong()
  end }, function(service)
    local _, idle = service.begin()
    local _, busy = service.begin()
    local answer
    local step = sched.spawn(function() answer = select(2, service.step(busy.id, service.says(1, ANSWER))) end)
    t.eventually(function() return #service.asked == 1 end)
    local whole
    local drain = sched.spawn(function() whole = service.app:drain(5) end)
    t.eventually(function() return #service.stored() == 1 end)
    open = true
    step:wait()
    drain:wait()
    t.expect({ answer.done, answer.reward, answer.error, whole }, { true, nil, "the service is ending", true })
    local kept = service.stored()
    t.expect({ #kept, kept[1].error, kept[2].error, #idle.id }, { 2, "the service is ending",
      "the service is ending", 32 })
  end)
end

function spec.what_happened_on_secret_sets_is_told_to_those_with_the_right_alone()
  with({ clients = TOKENS }, function(service)
    for token, details in pairs { [TOKEN] = true, [OTHER] = false } do
      local _, begun = service.begin({ limits = { turns = 1 } }, bearer(token))
      local _, answer = service.step(begun.id, service.says(1, ANSWER), bearer(token))
      t.expect({ answer.verdict.status, answer.verdict.evidence.wrong_set ~= nil }, { "wrong", details })
    end
  end)
end

return spec
