-- What the skills tell an agent is what the judge does: each rule with a number or a name in it is read from the source
-- that enforces it.
local fs = require "khost.fs"
local prompt = require "agent.prompt"
local t = require "tests.lua.harness"

local SKILLS = { "cpp-kernel", "cuda-kernel" }

local function read(path) return assert(fs.read(fs.root() .. "/" .. path)) end
local function skill(name) return read(("skills/%s/SKILL.md"):format(name)) end

local function has(text, part, where)
  t.is_true(text:find(part, 1, true) ~= nil, ("%q is missing in %s"):format(part, where))
end

local spec = {}

function spec.front_matter_is_legal_and_the_body_is_short()
  for _, name in ipairs(SKILLS) do
    local text = skill(name)
    local facts = assert(prompt.front_matter(text))
    t.expect(facts.name, name)
    t.is_true(#facts.description > 40 and #facts.description <= 1024)
    t.is_true(select(2, text:gsub("\n", "")) < 500)
  end
end

function spec.imports_that_the_skills_name_are_those_that_the_recorder_takes()
  local allowed = {}
  for name in read("sandbox/python/khost/candidate/recorder_guard.py"):match("ALLOWED_IMPORTS = (%b{})"):gmatch('"([^"]+)"') do
    allowed[name] = true
  end
  for _, name in ipairs(SKILLS) do
    local rule = skill(name):match("`model_new.py` imports from (.-) only")
    local count = 0
    for module in rule:gsub(" and ", ", "):gmatch("[%w_.]+") do
      count = count + 1
      t.is_true(allowed[module], module .. " is named but not taken")
    end
    t.is_true(count > 5, "few imports are named")
  end
end

function spec.the_default_workspace_is_as_large_as_the_skills_say()
  local shift = read("sandbox/python/khost/candidate/recorder.py"):match("DEFAULT_WORKSPACE_BYTES = (%d+) << 20")
  for _, name in ipairs(SKILLS) do
    t.expect(skill(name):match("default%s+(%d+) MiB"), shift)
  end
end

function spec.compile_scripts_use_the_flags_of_the_judge()
  local source = read("sandbox/build/build.cpp")
  local cuda, cpp = source:match('if %(request.target == "cuda"%) {%s*add%((%b{})%).-else {%s*add%((%b{})%)')
  for target, list in pairs { ["cuda-kernel"] = cuda, ["cpp-kernel"] = cpp } do
    local script = read(("skills/%s/template/utils/compile.sh"):format(target))
    for flag in list:gmatch('"([^"]+)"') do
      -- How messages look is no matter of what compiles.
      if not flag:find("diagnostics", 1, true) then has(script, flag, target .. "/compile.sh") end
    end
  end
end

function spec.every_script_that_a_skill_names_is_in_its_template_and_the_other_way_round()
  for _, name in ipairs(SKILLS) do
    local text, folder = skill(name), ("%s/skills/%s/template/utils/"):format(fs.root(), name)
    for script in text:gmatch("`utils/([%w_.]+)`") do
      t.expect({ script, fs.exists(folder .. script) }, { script, "file" })
    end
    for script in text:gmatch("python3 %-m utils%.([%w_]+)") do
      t.expect({ script, fs.exists(folder .. script .. ".py") }, { script, "file" })
    end
    for _, file in ipairs(fs.list(folder)) do
      if file ~= "__init__.py" and file ~= "request.py" and not file:find("/$") then has(text, "utils/" .. file,
        name) end
    end
  end
end

function spec.the_margin_of_the_skills_is_the_judges()
  local share = tonumber(read("sandbox/judge/evaluation/statistics.h"):match("kFaster = ([%d.]+);"))
  local text = ("%d %%"):format(share * 100 + 0.5)
  for _, name in ipairs(SKILLS) do has(skill(name), text, name) end
  has(read("scripts/agent/prompt.lua"), "at least " .. text, "the task's prompt")
end

return spec
