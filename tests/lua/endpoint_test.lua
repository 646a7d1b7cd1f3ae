-- policies.endpoint: whole episodes with tools against a server process that misbehaves.
local client = require "policies.endpoint.client"
local endpoint = require "policies.endpoint"
local environment = require "agent.environment"
local fs = require "khost.fs"
local http = require "khost.http"
local json = require "khost.json"
local kit = require "tests.lua.toolkit"
local loop = require "agent.loop"
local openai = require "chat.openai"
local random = require "lib.random"
local replay = require "policies.replay"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local t = require "tests.lua.harness"
local tools = require "agent.tools"
local wait = require "policies.endpoint.wait"

local MESSAGES = { { role = "system", text = "You write kernels." }, { role = "user", text = "Write one." } }

local function open(server, scenario, options)
  local all = { url = ("%s/%s/v1/"):format(server.base, scenario), toolset = tools.load(), pause_s = 0.02,
    key_env = "NO_SUCH_KEY" }
  for name, value in pairs(options or {}) do all[name] = value end
  return assert(endpoint.open(all))
end

local function play_with(policy, before_turn)
  return sandbox.within(nil, function(workspace)
    local world = environment.tools(workspace, tools.load(), { respond = policy.format.respond })
    if before_turn then
      local act = world.act
      world.act = function(action)
        before_turn()
        return act(action)
      end
    end
    local episode = loop.run({ policy = policy, environment = world }, { messages = MESSAGES }, random.stream(1))
    world.close()
    return episode, workspace:read("kernels/k.cpp")
  end, { files = kit.FILES })
end

local function play(server, scenario, options)
  local policy = open(server, scenario, options)
  local episode, kernel = play_with(policy)
  return episode, policy, kernel
end

local function seen(server, scenario)
  return json.decode(http.request { url = ("%s/%s/seen"):format(server.base, scenario) }.body)
end

local spec = {}

function spec.an_episode_with_parallel_calls_runs_to_its_end()
  server_kit.with(function(server)
    local episode, policy, kernel = play(server, "good", { prices = { input = 1, output = 10 } })
    t.expect({ episode.ending, #episode.turns, kernel }, { "final_answer", 3, "int k;\n" })
    t.expect(#episode.turns[1].calls, 2)
    t.expect(episode.turns[1].thought, "thinking")
    t.expect(episode.turns[1].calls[2].observation, "/workspace/kernels/k.cpp")
    t.expect(policy.counts, { requests = 3 })
    t.expect(policy.name, "endpoint small-model")
    local record = episode.record
    t.expect({ record.usage.prompt_tokens, record.usage.completion_tokens, record.usage.cached_tokens }, { 300, 30,
      120 })
    t.is_true(math.abs(record.usage.cost - (300 + 300) / 1e6) < 1e-12)
    t.is_true(record.token_ids:find("not for PPO", 1, true))
    local last = seen(server, "good").body
    t.expect({ #last.tools, last.model, last.messages[3].role, last.messages[4].role, last.messages[5].tool_call_id },
      { #tools.load().list, "small-model", "assistant", "tool", "call_2" })
    t.expect(seen(server, "good").authorization, nil)
  end)
end

function spec.streams_say_the_same_as_whole_answers()
  server_kit.with(function(server)
    local whole, _, first = play(server, "good")
    local streamed, policy, second = play(server, "stream", { stream = true })
    t.expect({ streamed.ending, first, second }, { "final_answer", "int k;\n", "int k;\n" })
    for i = 1, 3 do t.expect({ streamed.turns[i].text, streamed.turns[i].token_count }, { whole.turns[i].text,
      whole.turns[i].token_count }) end
    t.expect(streamed.record.usage, whole.record.usage)
    t.expect(policy.counts, { requests = 3 })
    local begin = sched.now()
    t.expect(play(server, "lingers", { stream = true }).ending, "final_answer")
    t.is_true(sched.now() - begin < 10, "a connection that stays open behind [DONE] must not be waited for")
  end)
end

function spec.busy_broken_and_cut_answers_are_asked_for_again_and_counted()
  server_kit.with(function(server)
    local expected = {
      busy = { requests = 5, retried_status_429 = 2 },
      dated = { requests = 4, retried_status_429 = 1 },
      broken = { requests = 5, retried_status_500 = 1, retried_status_503 = 1 },
      cut = { requests = 4, retried_io = 1 },
      reset = { requests = 4, retried_io = 1 },
      garbage = { requests = 4, retried_bad_answer = 1 },
      empty = { requests = 4, retried_bad_answer = 1 },
    }
    for scenario, counts in pairs(expected) do
      local begin = sched.now()
      local episode, policy, kernel = play(server, scenario)
      t.expect({ scenario, episode.ending, kernel }, { scenario, "final_answer", "int k;\n" })
      t.expect(policy.counts, counts)
      if scenario == "busy" or scenario == "dated" then
        t.is_true(sched.now() - begin >= 1, scenario .. ": Retry-After was not honoured")
      end
    end
  end)
end

function spec.a_wait_is_asked_for_in_seconds_or_by_a_date()
  t.expect(wait.date "Sun, 06 Nov 1994 08:49:37 GMT", 784111777)
  t.expect(wait.date "Thu, 29 Feb 2024 00:00:00 GMT", 1709164800)
  for _, text in ipairs { "", "soon", "Sun, 06 Nix 1994 08:49:37 GMT", "06 Nov 1994",
    "Sunday, 06-Nov-94 08:49:37 GMT" } do
    t.expect(wait.date(text), nil)
  end
  local date = "Sun, 06 Nov 1994 08:49:37 GMT"
  t.expect(wait.seconds({}, 0), nil)
  t.expect(wait.seconds({ ["retry-after"] = " 1.5 " }, 0), 1.5)
  t.expect(wait.seconds({ ["retry-after"] = "-3" }, 0), nil)
  t.expect(wait.seconds({ ["retry-after"] = "1e400" }, 0), nil)
  t.expect(wait.seconds({ ["retry-after"] = date }, 784111770), 7)
  t.expect(wait.seconds({ ["retry-after"] = date }, 784111780), 0)
  t.expect(wait.seconds({ ["retry-after"] = date, date = "Sun, 06 Nov 1994 08:49:30 GMT" }, 0), 7)
end

function spec.streams_that_stall_break_off_or_fail_are_asked_for_again()
  server_kit.with(function(server)
    for scenario, count in pairs { stall = "retried_timeout", cutstream = "retried_bad_answer",
      errorstream = "retried_bad_answer" } do
      local episode, policy = play(server, scenario, { stream = true, idle_s = 1 })
      t.expect({ scenario, episode.ending }, { scenario, "final_answer" })
      t.expect(policy.counts, { requests = 4, [count] = 1 })
    end
  end)
end

function spec.a_server_that_stays_down_ends_the_episode_with_its_words()
  server_kit.with(function(server)
    local episode, policy = play(server, "down", { tries = 3 })
    t.expect(episode.ending, "env_error")
    t.is_true(episode.error:find("status 500: always", 1, true), episode.error)
    t.expect(policy.counts, { requests = 3, retried_status_500 = 2, given_up = 1 })
  end)
end

function spec.a_server_that_starts_again_is_waited_for()
  local server = server_kit.start()
  local policy = open(server, "good", { tries = 12, pause_s = 0.1, most_pause_s = 0.5 })
  local first, turns = server, 0
  local function missed()
    return (policy.counts.retried_connect or 0) + (policy.counts.retried_io or 0) >= 1
  end
  local episode, kernel = play_with(policy, function()
    turns = turns + 1
    if turns == 2 then
      server.stop()
      -- Not before it was missed: on a slow machine it was back before the next request.
      sched.spawn(function()
        t.eventually(missed)
        sched.sleep(0.6)
        server = server_kit.start(first.port)
      end)
    end
  end)
  t.eventually(function() return server ~= first end)
  server.stop()
  t.expect({ episode.ending, kernel }, { "final_answer", "int k;\n" })
  t.is_true(missed())
end

function spec.calls_that_cannot_be_read_are_answered_and_labelled()
  server_kit.with(function(server)
    local episode, _, kernel = play(server, "badargs")
    t.expect({ episode.ending, kernel, episode.labels.malformed_call }, { "final_answer", nil, 1 })
    t.expect({ episode.turns[1].calls[1].label, episode.turns[1].calls[2].status }, { "malformed_call", "ok" })
  end)
end

function spec.arguments_as_data_content_in_parts_and_ids_given_twice_are_understood()
  server_kit.with(function(server)
    local episode, _, kernel = play(server, "dialects")
    t.expect({ episode.ending, kernel, episode.turns[1].text, episode.turns[1].thought }, { "final_answer", "int k;\n",
      "parts", "thinking" })
    t.expect(episode.turns[1].calls[2].id, "call_1_2")
  end)
end

function spec.fields_that_a_server_refuses_are_left_out_from_then_on()
  server_kit.with(function(server)
    local episode, policy = play(server, "strict")
    t.expect(episode.ending, "final_answer")
    t.expect(policy.counts, { requests = 5, refused_parallel_tool_calls = 1, refused_max_tokens = 1 })
    local body = seen(server, "strict").body
    t.expect({ body.max_tokens, body.parallel_tool_calls, body.max_completion_tokens }, { nil, nil, 4096 })
  end)
end

function spec.a_cut_answer_is_no_final_one_and_an_overflow_is_a_limit()
  server_kit.with(function(server)
    t.expect(play(server, "length").ending, "cut")
    t.expect(play(server, "overflow").ending, "token_limit")
    t.expect(play(server, "good", { context = 120 }).ending, "token_limit")
  end)
end

function spec.the_key_is_sent_and_said_nowhere()
  server_kit.with(function(server)
    -- Any variable does for a key; what matters is that its value shows up in the header only.
    local key = fs.env "PATH"
    local episode = play(server, "refuse", { key_env = "PATH" })
    t.expect(seen(server, "refuse").authorization, "Bearer " .. key)
    t.expect(episode.ending, "env_error")
    t.is_true(episode.error:find("Incorrect API key: Bearer (key)", 1, true), episode.error)
    t.is_true(not json.encode(episode):find(key, 1, true))
  end)
end

function spec.a_key_that_stands_in_its_own_replacement_is_replaced_once()
  local asking = client.open { url = "http://127.0.0.1/v1" }
  function asking.key() return "key" end
  t.expect(asking:without_key "key of a keyboard", "(key) of a (key)board")
  function asking.key() return "a.%1" end
  t.expect(asking:without_key "a.%1 and ab%1", "(key) and ab%1")
end

function spec.models_without_tools_speak_a_dialect()
  server_kit.with(function(server)
    local policy = open(server, "good", { format = require "chat.hermes" })
    local episode = play_with(policy)
    -- This server's calls come as data, which a policy that reads text ignores: its answer has no call.
    t.expect({ episode.ending, #episode.turns }, { "final_answer", 1 })
    t.expect(seen(server, "good").body.tools, nil)
  end)
end

function spec.a_stored_episode_is_played_again_without_a_server()
  local stored, kernel
  server_kit.with(function(server)
    local _
    stored, _, kernel = play(server, "good")
  end)
  local again, second = play_with(replay.open(stored, openai))
  t.expect({ again.ending, second }, { "final_answer", kernel })
  for i = 1, 2 do
    for k, call in ipairs(stored.turns[i].calls) do
      local once_more = again.turns[i].calls[k]
      t.expect({ once_more.name, once_more.arguments, once_more.status }, { call.name, call.arguments, call.status })
    end
  end
  t.expect(replay.differences({ turns = { { observation = "a" }, { observation = "b" } } },
    { turns = { { observation = "a" } } }),
    { { turn = 2, stored = "b" } })
end

return spec
