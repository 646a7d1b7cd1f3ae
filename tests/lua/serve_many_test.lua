-- Many token-step episodes at once over real sockets: each gets its own answers, none is lost, none is played twice.
local fs = require "khost.fs"
local kit = require "tests.lua.serve_kit"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local with = require("tests.lua.episodes_kit").with

local spec = {}

local EPISODES = 32

-- Plays one with a number of its own in its kernel; each step is sent twice at the same time.
local function play(service, number)
  local _, begun = service.begin { limits = { turns = 3, answer_tokens = 200 } }
  local tokens, answer = begun.tokens, nil
  for step, text in ipairs { ("```cpp\nint k%d;\n```"):format(number), "no block", "done" } do
    local said, again = service.says(step, text), nil
    local twin = sched.spawn(function() again = select(3, service.step(begun.id, said)).body end)
    local _, content, got = service.step(begun.id, said)
    twin:wait()
    t.expect(again, got.body)
    answer = content
    for _, list in ipairs { said.tokens, answer.append } do
      for _, token in ipairs(list) do tokens[#tokens + 1] = token end
    end
  end
  t.expect({ answer.done, answer.reward }, { true, -1 })
  t.expect(answer.tokens_hash, fs.sha256(table.concat(tokens, ",")))
  return answer.trajectory
end

function spec.many_episodes_at_once_get_their_own_answers()
  local verdicts = {}
  with({ most = EPISODES, slots = 3, answer = function(kind, body)
    sched.sleep(0.002)
    local file = body.files["kernels/k.cpp"]
    verdicts[kind .. file] = (verdicts[kind .. file] or 0) + 1
    return kit.verdict("wrong", "verify", "mismatch", { text = "seen", ok = false })
  end }, function(service)
    local tasks, seen = {}, {}
    for number = 1, EPISODES do tasks[number] = sched.spawn(play, service, number) end
    for _, task in ipairs(tasks) do
      local trajectory, message = task:wait()
      t.is_true(trajectory and not seen[trajectory], tostring(message))
      seen[trajectory] = true
    end
    t.expect(#service.stored(), EPISODES)
    for number = 1, EPISODES do
      -- Seen once while it was written, and judged once at the end.
      local file = ("int k%d;\n"):format(number)
      t.expect({ verdicts["verify" .. file], verdicts["evaluate" .. file] }, { 1, 1 })
    end
    t.expect({ service.app.episodes.open, service.app.queue.waiting, service.app.in_work }, { 0, 0, 0 })
  end)
end

return spec
