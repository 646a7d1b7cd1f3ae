-- khost.reload: a change swaps whole generations; an error keeps the last good one and says file and line.
local fs = require "khost.fs"
local reload = require "khost.reload"
local t = require "tests.lua.harness"

local ROOT = "/tmp/khost-reload-spec"
local ENTRY = ROOT .. "/entry.lua"
local spec = {}

local function write(text)
  fs.mkdirs(ROOT)
  assert(fs.write(ENTRY, text))
end

local function open(text, options)
  write(text)
  return assert(reload.open(ENTRY, options))
end

local function refused(handle, text, pattern)
  local value, generation = handle:get()
  write(text)
  local after, number = handle:get()
  t.expect({ after == value, number }, { true, generation })
  t.is_true(handle:failure():find(pattern), "got: " .. tostring(handle:failure()))
end

function spec.a_change_gives_a_new_generation()
  local handle = open("return { n = 1 }")
  local first, generation = handle:get()
  local hash, heard = handle:hash(), nil
  t.expect({ first.n, generation }, { 1, 1 })
  handle:on_change(function(value, number) heard = { value.n, number } end)
  write("return { n = 2 }")
  t.expect(handle:get().n, 2)
  t.expect(heard, { 2, 2 })
  t.expect(first.n, 1)
  t.is_true(handle:hash() ~= hash and #hash == 64)
  write("return { n = 1 }")
  handle:get()
  t.expect(handle:hash(), hash)
  t.expect(handle:sources()[1].path, ENTRY)
end

function spec.a_syntax_error_keeps_the_old_generation()
  refused(open("return { n = 1 }"), "return {\n n = = }", "entry.lua:2:")
end

function spec.a_raising_script_keeps_the_old_generation()
  refused(open("return { n = 1 }"), "local x = nil\nreturn { n = x.y }", "entry.lua:2:")
end

function spec.an_accidental_global_keeps_the_old_generation()
  refused(open("return { n = 1 }"), "count = 1\nreturn {}", "entry.lua:1: assignment to the global 'count'")
end

function spec.an_endless_loop_keeps_the_old_generation()
  refused(open("return { n = 1 }"), "while true do end", "entry.lua:1: ran too long")
end

function spec.a_refused_check_keeps_the_old_generation_and_mending_it_swaps()
  local handle = open("return { n = 1 }", {
    check = function(value) return type(value.n) == "number", "n must be a number" end,
  })
  refused(handle, "return { n = 'x' }", "n must be a number")
  write("return { n = 5 }")
  t.expect(handle:get().n, 5)
  t.expect(handle:failure(), nil)
end

function spec.the_first_build_reports_its_error()
  write("return 1 +")
  local handle, message, code = reload.open(ENTRY)
  t.expect({ handle == nil, code }, { true, "bad_input" })
  t.is_true(message:find("entry.lua:1:"))
end

function spec.state_outlives_reloads_and_migrates()
  local first = reload.state("counter", { version = 1, init = function() return { n = 0 } end })
  first.n = 3
  t.expect(reload.state("counter", { version = 1, init = error }).n, 3)
  local migrated = reload.state("counter", {
    version = 2, init = error, migrate = function(data) return { count = data.n } end,
  })
  t.expect(migrated, { count = 3 })
  t.raises("has no migrate", reload.state, "counter", { version = 3, init = error })
  local saved = reload.save_states()
  reload.load_states(nil)
  t.expect(reload.state("counter", { version = 2, init = function() return { count = 0 } end }).count, 0)
  reload.load_states(saved)
  t.expect(reload.state("counter", { version = 2, init = error }).count, 3)
end

return spec
