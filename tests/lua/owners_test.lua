-- One owner for each concept: who opens a judge, plays an episode, picks a best, computes a rate. A second one fails
-- here; whoever needs the concept calls its owner.
local fs = require "khost.fs"
local t = require "tests.lua.harness"

-- What only the owner may say, as Lua patterns of its code.
local OWNERS = {
  { concept = "opens a judge", owner = "scripts/judge/client.lua", folders = { "scripts", "recipes", "tests" },
    also = { ["tests/lua/config_test.lua"] = "options that no process takes" },
    patterns = { 'require%(?%s*"khost%.judge"%)?%.open', "judge%.open%s*[{%(]" }, unless = 'require "judge%.client"' },
  { concept = "opens khost.judge at all", owner = "scripts/judge/client.lua", folders = { "scripts", "recipes" },
    also = { ["scripts/judge/verdict.lua"] = "the table of statuses" }, patterns = { 'require%s*%(?"khost%.judge"' } },
  { concept = "plays an episode", owner = "scripts/agent/episode.lua", folders = { "scripts", "recipes" },
    also = { ["scripts/agent/loop.lua"] = "where it is defined" }, patterns = { "loop%.run%s*[{%(]" } },
  { concept = "picks a best", owner = "scripts/judge/best.lua", folders = { "scripts", "recipes" },
    patterns = { "speedup[^\n]*>[^\n]*best", "best[^\n]*<[^\n]*speedup", "math%.m[axin]+%([^\n]*verdicts?%.speedup" } },
  { concept = "computes a pass rate", owner = "scripts/evaluation/metrics.lua", folders = { "scripts", "recipes" },
    patterns = { "passed%s*/", "right%s*/", "correct%s*/", "[aA][vV][gG]%(correct%)", "pass_rate%s*=%s*[%w_%.#]+%s*/" } },
  { concept = "computes a geometric mean", owner = "scripts/evaluation/metrics.lua", folders = { "scripts", "recipes" },
    also = { ["scripts/evaluation/paired.lua"] = "of ratios of one task in two runs" },
    patterns = { "math%.exp%([^\n]*/" } },
  { concept = "says which chat format a model speaks", owner = "scripts/chat/formats.lua",
    folders = { "scripts", "recipes" }, patterns = { 'special%s*%(?"<|task|>"' } },
  { concept = "learns beside other ranks", owner = "scripts/training/trainer.lua",
    folders = { "scripts/training", "recipes/stages" },
    also = { ["scripts/training/toy.lua"] = "it learns nothing", ["scripts/training/ranks.lua"] = "joins them",
      ["scripts/training/rank.lua"] = "joins them", ["scripts/training/follow.lua"] = "is told what to do" },
    patterns = { 'require%s*%(?"khost%.trainer"' } },
  { concept = "says which skill a target has", owner = "scripts/run/template.lua", folders = { "scripts", "recipes" },
    patterns = { 'cuda%s*=%s*"cuda%-kernel"', '"cuda%-kernel"%s*or' } },
}

local function code_of(path)
  local lines = {}
  for line in (assert(fs.read(fs.root() .. "/" .. path)) .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line:match("^%s*%-%-") and "" or (line:gsub("%s%-%-%s.*$", ""))
  end
  return table.concat(lines, "\n")
end

local function files(folder, into)
  for _, name in ipairs(assert(fs.list(fs.root() .. "/" .. folder))) do
    local path = folder .. "/" .. name:gsub("/$", "")
    if name:sub(-1) == "/" then
      if path ~= "scripts/meta" and path ~= "tests/data/kernels" then files(path, into) end
    elseif name:match("%.lua$") and path ~= "tests/lua/owners_test.lua" then
      into[#into + 1] = path
    end
  end
  return into
end

-- Whether code does what only the owner may do.
local function does(entry, code)
  if entry.unless and code:find(entry.unless) then return false end
  for _, pattern in ipairs(entry.patterns) do
    if code:find(pattern) then return true end
  end
  return false
end

local function others(entry)
  local list = {}
  for _, folder in ipairs(entry.folders) do
    for _, path in ipairs(files(folder, {})) do
      if path ~= entry.owner and not (entry.also or {})[path] and does(entry, code_of(path)) then
        list[#list + 1] = path
      end
    end
  end
  table.sort(list)
  return list
end

local spec = {}

for _, entry in ipairs(OWNERS) do
  spec["only_one_" .. entry.concept:gsub("%W", "_")] = function()
    t.is_true(fs.exists(fs.root() .. "/" .. entry.owner) == "file", entry.owner .. " is gone")
    local found = others(entry)
    t.is_true(#found == 0, ("%s: %s does so too; %s is the owner"):format(entry.concept, table.concat(found, ", "),
      entry.owner))
  end
end

function spec.a_second_owner_would_be_found()
  local second = { ["opens a judge"] = 'local judge = require "khost.judge"\nlocal p = judge.open { jobs = 1 }',
    ["opens khost.judge at all"] = 'local judge = require "khost.judge"',
    ["plays an episode"] = "local episode = loop.run({ policy = p }, task, stream)",
    ["picks a best"] = "if verdict.speedup.compile > best.speed then best = verdict end",
    ["computes a pass rate"] = "local rate = passed / #verdicts",
    ["computes a geometric mean"] = "return math.exp(sum / count)",
    ["says which chat format a model speaks"] = 'local tiny = engine:special "<|task|>" ~= nil',
    ["learns beside other ranks"] = 'local trainer = require "khost.trainer"',
    ["says which skill a target has"] = 'local SKILLS = { cuda = "cuda-kernel" }' }
  for _, entry in ipairs(OWNERS) do
    t.is_true(does(entry, assert(second[entry.concept])), entry.concept)
  end
end

return spec
