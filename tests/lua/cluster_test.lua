-- The client of episodes and the adapters of recipes/cluster, without any engine's package: a Python process plays
-- against a service here. The engines' own classes: tests/manual/long/cluster.sh.
local fs = require "khost.fs"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local machine = require "khost.machine"
local t = require "tests.lua.harness"
local with = require("tests.lua.episodes_kit").with

local spec = {}

function spec.python_clients_play_and_mask_what_has_no_reward()
  with({ most = 4, answer = function(_, body)
    if body.files["kernels/k.cpp"]:find("lost", 1, true) then return nil, "the judge died", "gone" end
    return kit.verdict("wrong", "verify", "mismatch", { text = "seen", ok = false })
  end }, function(service)
    local answers = {}
    for name, text in pairs { wrong = "```cpp\nint b;\n```", lost = "```cpp\nint lost;\n```", done = "done" } do
      answers[name] = service.says(1, text).tokens
    end
    local done = assert(machine.run({ "/usr/bin/env", "python3", fs.root() .. "/tests/python/cluster_client.py",
      tostring(service.port), json.encode(answers) }, { timeout_s = 120 }))
    t.is_true(done.code == 0 and done.output:find("all holds", 1, true), done.output)
    t.eventually(function() return service.app.episodes.open == 0 end)
    local errors = {}
    for _, kept in ipairs(service.stored()) do errors[kept.error or "none"] = (errors[kept.error or "none"] or 0) + 1 end
    -- One was cancelled, one forgotten, two had prompts that were too long, one a server that encoded an answer anew.
    t.expect(errors["the client gave the episode up"], 5)
  end)
end

return spec
