-- khost.config as scripts see it: strict tables, messages, schemas.
local config = require "khost.config"
local fs = require "khost.fs"
local t = require "tests.lua.harness"

local FOLDER = "/tmp/khost-config-spec"

local function preset(text)
  assert(fs.mkdirs(FOLDER))
  assert(fs.write(FOLDER .. "/p.toml", text))
  return FOLDER .. "/p.toml"
end

local function load(text, set)
  return config.load { preset = preset(text), set = set, machine = "" }
end

local spec = {}

function spec.load_merges_preset_and_overrides()
  local c = assert(load("seed = 1\n[ppo]\nsteps = 6\n", { "ppo.steps=8" }))
  t.expect(c.seed, 1)
  t.expect(c.ppo.steps, 8)
  t.is_true(config.show(c):find("--set ppo.steps=8", 1, true))
end

function spec.load_reads_the_machine_defaults_of_the_root()
  local c = assert(config.load {})
  t.expect(type(c.machine.runs), "string")
  local _, message, code = config.load { set = { "machine.rusn=x" } }
  t.expect(code, "bad_input")
  t.is_true(message:find("did you mean 'machine.runs'", 1, true))
end

function spec.an_unknown_preset_is_a_failure()
  local c, message, code = config.load { preset = "no_such_preset" }
  t.expect(c, nil)
  t.expect(code, "bad_input")
  t.is_true(message:find("unknown preset 'no_such_preset'", 1, true))
end

function spec.reading_an_unknown_key_raises_with_the_nearest()
  local c = assert(load("[ppo]\nsteps = 6\n"))
  t.raises("no key 'ppo.stpes'; did you mean 'ppo.steps'", function() return c.ppo.stpes end)
  t.raises("config_test.lua", function() return c.pop end)
  t.raises("read-only", function() c.ppo.epochs = 1 end)
end

function spec.get_and_plain_read_optional_keys()
  local c = assert(load("[ppo]\nsteps = 6\n"))
  t.expect(config.get(c, "ppo.steps", 1), 6)
  t.expect(config.get(c, "ppo.epochs", 1), 1)
  t.expect(config.plain(c).ppo.epochs, nil)
end

function spec.a_configuration_is_plain_data_for_pairs_and_for_options()
  local c = assert(load("sizes = [1, 2]\n[open]\npython = \"python3\"\njobs = -1\n"))
  t.expect(c.sizes, { 1, 2 })
  local names = {}
  for name in pairs(c) do names[#names + 1] = name end
  t.expect(#names, 2)
  t.expect(select(3, require("khost.judge").open(c.open)), "bad_input")
end

function spec.schema_gives_defaults_and_limits()
  local schema = config.schema {
    seed = config.integer { default = 1, min = 0, help = "of everything drawn" },
    reward_on = config.choice { choices = { "final", "best" }, default = "final" },
    ppo = config.group { lr = config.number { default = 3e-4, max = 1 }, clip = config.flag { default = true } },
    tags = config.list { default = {} },
    name = config.text {},
  }
  local c = assert(config.load { schema = schema, set = { "name=x" }, machine = "" })
  t.expect(c.ppo.lr, 3e-4)
  t.expect(c.tags, {})
  local _, message = config.load { schema = schema, set = { "name=x", "ppo.lr=2" }, machine = "" }
  t.is_true(message:find("'ppo.lr' must be at most 1", 1, true))
  _, message = config.load { schema = schema, machine = "" }
  t.is_true(message:find("'name' is not set", 1, true))
end

function spec.wrong_fields_raise()
  t.raises("default", config.integer, { default = "x" })
  t.raises("unknown key 'mim'", config.number, { mim = 1 })
end

function spec.diff_lists_what_differs()
  t.expect(config.diff({ a = 1, b = { c = 2 } }, { a = 1, b = { c = 3 } }), { { name = "b.c", from = 2, to = 3 } })
end

function spec.parse_reads_toml_and_names_the_line_of_an_error()
  t.expect(config.parse("a = [1, 2]"), { a = { 1, 2 } })
  local value, message, code = config.parse("a = 1\nb = = 2", "x.toml")
  t.expect(value, nil)
  t.expect(code, "bad_input")
  t.is_true(message:find("x.toml:2", 1, true))
end

function spec.presets_and_nearest()
  t.expect(type(config.presets()), "table")
  t.expect(config.nearest("smok", { "paper", "smoke" }), "smoke")
end

return spec
