-- What one client may cost all others: the judge that they share, the loop that answers them, memory, and words that
-- take a failure of ours for the candidate's.
local beneath = require "lib.beneath"
local episode_request = require "serve.episode_request"
local episodes_kit = require "tests.lua.episodes_kit"
local fs = require "khost.fs"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local machine = require "khost.machine"
local parse = require "agent.parse"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local spec = {}

function spec.a_workspace_that_is_too_large_reaches_no_judge()
  local root = "/tmp/khost-serve-costs-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(root .. "/w/kernels"))
  assert(fs.write(root .. "/w/model.py", kit.SOURCE))
  assert(fs.write(root .. "/w/kernels/core", ("\0"):rep(9 * 2 ^ 20)))
  local ok, message = pcall(kit.with, { allow_tasks = true, root = fs.absolute(root) }, function(service)
    local headers = { ["content-type"] = "application/json" }
    local function speak(method, params)
      local got = service.send("/mcp", json.encode { jsonrpc = "2.0", id = 1, method = method, params = params },
        headers, "POST")
      headers["mcp-session-id"] = headers["mcp-session-id"] or got.headers["mcp-session-id"]
      return json.decode(got.body)
    end
    speak("initialize", { protocolVersion = "2025-06-18" })
    local answer = speak("tools/call", { name = "evaluate", arguments = { workspace = "w" } })
    t.is_true(answer.result.isError, json.encode(answer))
    t.is_true(answer.result.content[1].text:find("more than 8 MiB", 1, true), answer.result.content[1].text)
    t.expect(#service.asked, 0)
    local many = service.send("/mcp", "[" .. ("[],"):rep(20000) .. "1]", headers, "POST")
    t.expect(many.status, 400)
    t.is_true(many.body:find("more than 10000 lists", 1, true), many.body)
  end)
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

-- A workspace whose kernels/ a command fills.
local function filled(name, command)
  local root = ("%s/khost-serve-costs-%s"):format(fs.exists "/dev/shm" and "/dev/shm" or "/tmp", name)
  fs.remove_tree(root)
  assert(fs.mkdirs(root .. "/kernels"))
  t.expect(machine.run({ "sh", "-c", ("cd %s/kernels && %s"):format(root, command) }, { timeout_s = 60 }).code, 0)
  return root
end

function spec.empty_folders_count_in_the_limit_of_files()
  local root = filled("folders", "seq 20001 | xargs mkdir")
  local found, message, code = beneath.files(root, { under = "kernels" })
  fs.remove_tree(root)
  t.expect({ found, code }, { nil, "limit" })
  t.is_true(message:find("more than 20000 files and folders", 1, true), message)
end

function spec.folders_that_are_too_deep_are_told_and_not_left_out()
  local root = filled("deep", "mkdir -p " .. ("d/"):rep(33) .. " && touch " .. ("d/"):rep(33) .. "k.cpp")
  local found, message, code = beneath.files(root, { under = "kernels" })
  t.expect({ found, code }, { nil, "limit" })
  t.is_true(message:find("deeper than 32 folders", 1, true), message)
  t.expect(beneath.files(root, { under = "kernels", depth = 3 }), {})  -- as its caller wants it
  fs.remove_tree(root)
end

function spec.others_are_served_while_a_folder_is_walked()
  local root = filled("walk", "seq 4000 | xargs mkdir")
  local longest, last, walking = 0, sched.now(), true
  local watching = sched.spawn(function()
    repeat
      local done = not walking
      longest, last = math.max(longest, sched.now() - last), sched.now()
      sched.sleep(0)
    until done
  end)
  local begin = sched.now()
  t.expect(beneath.files(root, { under = "kernels" }), {})
  local took = sched.now() - begin
  walking = false
  watching:wait()
  fs.remove_tree(root)
  t.is_true(longest < took / 2, ("%.3f s of %.3f s"):format(longest, took))
end

function spec.an_answer_of_many_files_or_deep_paths_is_refused_at_once()
  local deep, parts = ("a/"):rep(240), {}
  for index = 1, 15000 do parts[index] = ("```cpp kernels/%d/%sa\nx\n```\n"):format(index, deep) end
  local begin = sched.now()
  t.expect({ parse.files(table.concat(parts)) }, { nil, "bad_path" })
  for index = 1, 15000 do parts[index] = ("```cpp kernels/%d.cpp\nx\n```\n"):format(index) end
  t.expect({ parse.files(table.concat(parts)) }, { nil, "too_many_files" })
  t.is_true(sched.now() - begin < 0.5, ("%.2f s"):format(sched.now() - begin))
end

function spec.a_task_that_is_too_large_is_not_taken()
  kit.with({ allow_tasks = true }, function(service)
    local status, answer = service.post { task = { source = ("#"):rep(2 ^ 20 + 1) }, files = kit.FILES }
    t.expect({ status, answer.error.code, #service.asked }, { 400, "bad_input", 0 })
  end)
end

function spec.a_prompt_that_is_longer_than_the_conversation_is_refused_and_nothing_of_an_episode_is_kept()
  episodes_kit.with({}, function(service)
    local _, begun = service.ask("/v1/episodes", { task = "task", format = "hermes", limits = { tokens = 64 } })
    local prompt = {}
    for index = 1, 65 do prompt[index] = 1 end
    local draw = { step = 1, text = "x", prompt_tokens = prompt, tokens = { 1 }, logprobs = { -1 }, finish = "stop" }
    local status, said = service.step(begun.id, draw)
    t.expect({ status, said.error.code }, { 400, "bad_input" })
    prompt[65] = nil
    t.expect((service.step(begun.id, draw)), 200)
    t.eventually(function() return service.app.episodes.open == 0 end)
    t.expect(service.app.episodes.by_id[begun.id].tokens, nil)
  end)
end

function spec.what_a_server_of_messages_may_draw_is_counted_behind_its_prompt()
  episodes_kit.with({}, function(service)
    local _, begun = service.ask("/v1/episodes", { task = "task", format = "files", limits = { response_tokens = 200 } })
    t.expect(begun.max_tokens, 200)
    local prompt = {}
    for index = 1, 100 do prompt[index] = 1 end
    local _, answer = service.step(begun.id, { step = 1, text = "no block", prompt_tokens = prompt, tokens = { 1, 2, 3 },
      logprobs = { -1, -1, -1 }, finish = "stop" })
    t.expect({ answer.done, answer.max_tokens }, { false, 197 })
    service.delete(begun.id)
  end)
end

-- A step that comes in time is taken after one that was too large.
function spec.a_step_is_as_large_as_its_episode_allows()
  local limits = { tokens = 1000, answer_tokens = 100 }
  local without, with = episode_request.most_bytes(limits, false), episode_request.most_bytes(limits, true)
  t.is_true(without >= 100 * 40 and without < 2 ^ 17 and with > without and with < 2 ^ 18, without .. " " .. with)
  t.expect(episode_request.most_bytes({ tokens = 2 ^ 20, answer_tokens = 2 ^ 20 }, true), 8 * 2 ^ 20)
  episodes_kit.with({}, function(service)
    local _, begun = service.begin { limits = { turns = 1, answer_tokens = 100, tokens = 2000 } }
    local large = '{"step":1,"finish":"length","logprobs":[],"tokens":[' .. ("0,"):rep(2 ^ 17) .. "0]}"
    local status, answer = service.step(begun.id, large)
    t.expect({ status, answer.error.code }, { 413, "limit" })
    t.expect((service.step(begun.id, service.says(1, "done"))), 200)
  end)
end

function spec.a_step_of_a_wrong_number_is_not_read()
  local read, step = 0, episode_request.step
  function episode_request.step(...)
    read = read + 1
    return step(...)
  end
  local ok, problem = pcall(episodes_kit.with, {}, function(service)
    local _, begun = service.begin { limits = { turns = 2 } }
    local body = '{"tokens":[' .. ("0,"):rep(20000) .. '0],"step" : %d}'
    local function told(number) return select(2, service.step(begun.id, body:format(number))).error.code end
    t.expect({ told(3), told(2), read }, { "early", "early", 0 })
    service.step(begun.id, service.says(1, "no block"))
    t.expect({ told(0), told(3), read }, { "late", "early", 1 })
    service.delete(begun.id)
    t.eventually(function() return service.app.episodes.open == 0 end)
    t.expect({ told(2), read }, { "ended", 1 })
  end)
  episode_request.step = step
  if not ok then error(problem, 0) end
end

function spec.lists_that_are_longer_than_an_episode_allows_are_refused_before_their_elements()
  local limits = { tokens = 30, answer_tokens = 20 }
  local function told(fields)
    local body = { step = 1, text = "x", prompt_tokens = { 1 }, tokens = { 1 }, logprobs = { -1 }, finish = "stop" }
    for name, value in pairs(fields) do body[name] = value end
    return select(2, episode_request.step(json.encode(body), true, limits))
  end
  local words = {}
  for index = 1, 31 do words[index] = "no id" end
  t.expect(told { tokens = words }, "tokens: at most 20 may be drawn in this step, got 31")
  t.expect(told { logprobs = words }, "logprobs: one for each of the 1 tokens expected, got 31")
  t.expect(told { prompt_tokens = words }, "prompt_tokens: the prompt has 31 ids, and limits.tokens = 30")
  t.expect(told {}, nil)
  words[31] = nil
  t.expect(told { prompt_tokens = words }, "prompt_tokens[0]: a token id expected")
end

function spec.a_tune_whose_judge_is_lost_is_503_and_one_without_values_is_400()
  kit.with({ answer = function() return nil, "the judge died", "gone" end }, function(service)
    local function tune(more)
      local body = { kind = "tune", task = kit.TASK, name = "B", values = { 1, 2 },
        files = { ["kernels/k.cpp"] = "#define B 1\n" } }
      for name, value in pairs(more) do body[name] = value end
      local got = service.send("/v1/feedback", json.encode(body))
      return { got.status, json.decode(got.body).error.code, got.headers["retry-after"] }
    end
    t.expect(tune {}, { 503, "void", "5" })
    local asked = #service.asked
    t.expect(tune { values = json.list {} }, { 400, "bad_input", nil })
    t.expect(#service.asked, asked)
  end)
end

return spec
