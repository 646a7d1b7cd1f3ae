-- khost fetch-model as a program: what it says when the makers' file does not come, and a file that is here already.
local fs = require "khost.fs"
local gguf = require "tests.lua.gguf_kit"
local json = require "khost.json"
local machine = require "khost.machine"
local policy = require "khost.policy"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local t = require "tests.lua.harness"

local spec = {}

local function match(pattern, text)
  t.is_true(tostring(text):find(pattern) ~= nil, ("expected '%s' in: %s"):format(pattern, tostring(text)))
end

local function with_folder(fn)
  local folder = "/tmp/khost-fetch-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local ok, message = pcall(fn, folder)
  fs.remove_tree(folder)
  if not ok then error(message, 0) end
end

-- The program's exit code and what it printed, with a cache of its own.
local function program(folder, ...)
  local got = assert(machine.run({ "/usr/bin/env", "XDG_CACHE_HOME=" .. folder, "HF_ENDPOINT=",
    "KHOST_ROOT=" .. fs.root(), fs.build_dir() .. "/khost", "fetch-model", ... }, { timeout_s = 120 }))
  return got.code, got.output
end

function spec.it_says_what_to_do_when_the_file_does_not_come()
  with_folder(function(folder)
    server_kit.with(function(server)
      local code, said = program(folder, "qwen2.5-coder-0.5b", "--from", server.base .. "/403")
      t.expect(code, 1)
      match("/403/Qwen/Qwen2%.5%-Coder%-0%.5B%-Instruct%-GGUF/resolve/main/qwen2%.5%-coder%-0%.5b%-instruct%-q4_k_m%.gguf",
        said)
      match("answered 403.*HF_ENDPOINT.*%-%-gguf FILE", said)
      code, said = program(folder, "qwen2.5-coder-1.5b", "--from", server.base .. "/whole/")
      t.expect(code, 1)
      match("sent a file of 300000 bytes, expected 1117320768", said)
    end, "files.py")
  end)
end

function spec.it_names_what_it_knows()
  with_folder(function(folder)
    local code, said = program(folder, "gpt-5")
    t.expect(code, 2)
    match("model gpt%-5: expected qwen2%.5%-coder%-0%.5b, qwen2%.5%-coder%-1%.5b or smollm2, or %-%-gguf FILE", said)
    code, said = program(folder, "--gguf", "/nowhere/x.gguf")
    t.expect(code, 1)
    match("/nowhere/x%.gguf: there is no such file", said)
    code, said = program(folder, "--gguf", fs.root() .. "/LICENSE")
    t.expect(code, 1)
    match("LICENSE: is no GGUF file", said)
  end)
end

function spec.a_file_that_is_here_becomes_a_folder_that_opens()
  with_folder(function(folder)
    assert(fs.write(folder .. "/small.gguf", gguf.small_model()))
    local code, said = program(folder, "--gguf", folder .. "/small.gguf")
    t.expect(code, 0)
    local made = folder .. "/khost/models/small"
    match("small\n%s+[%d%.]+ nats a token", said)
    t.expect(json.decode(fs.read(made .. "/config.json")).model_type, "qwen2")
    local opened = assert(policy.open { model = made, lease = "" })
    t.expect(opened:end_tokens(), { 257 })
    t.expect(opened:encode("ab<|im_end|>", { special = true }), { 256, 257 })
  end)
end

return spec
