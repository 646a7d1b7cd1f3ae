-- Hunts for answers that the judge accepts although they were not computed: `khost recipes/hunt.lua --minutes 60`.
-- Known cheats and honest candidates (--corpus, --groups) are mutated: loops end early, elements are skipped, answers
-- are scaled, flushed, rounded, or kept from an earlier call; the end of a call is told before it. A mutant is a find
--   wrong   when it passes by --tolerance and fails by the class `strict`, which the candidate that it was made of
--           passes; or when it passes although that candidate does not
--   gain    when it passes and is faster than that candidate by more than the slack and 3 %, twice
-- A find is shrunk (fewer mutations, fewer lines) and stored in --output/finds/NAME as a workspace with found.json. The
-- hunt goes on where it stopped when it is started again with the same --output; --only N repeats one mutant.
-- With --tolerance paper, which is known to be loose, a hunt must find something: that shows that it works.
-- Exit code 1 when there is a find.
local args = require "lib.args"
local candidates = require "hunting.candidates"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "judge.client"
local log = require "khost.log"
local mutations = require "hunting.mutations"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local shrink = require "hunting.shrink"
local verdicts = require "judge.verdict"

local OPTIONS = {
  { name = "--output", kind = "text", default = "runs/hunt", help = "folder of the hunt's state and of what it finds" },
  { name = "--corpus", kind = "text", default = "tests/data/kernels", help = "folder of groups of candidates" },
  { name = "--groups", kind = "text", help = "groups of it, with commas (else good and cheat of the target)" },
  { name = "--target", kind = "text", default = "cpu", help = "cpu or cuda" },
  { name = "--match", kind = "text", help = "candidates whose name contains this" },
  { name = "--minutes", kind = "number", default = 60, help = "of hunting" },
  { name = "--mutants", kind = "number", default = 1e9, help = "at most, those of earlier starts among them" },
  { name = "--tolerance", kind = "text", default = "calibrated", help = "calibrated, or a class that is looser" },
  { name = "--most", kind = "number", default = 2, help = "mutations of a mutant" },
  { name = "--seed", kind = "number", default = 1, help = "of the mutants" },
  { name = "--only", kind = "number", help = "this mutant alone" },
  { name = "--no-measure", kind = "flag", help = "look for wrong answers alone, not for gains" },
}
local ABOUT = { name = "recipes/hunt.lua", summary = "looks for answers that pass without being computed" }
local SHARE = 0.97         -- of the time of what a mutant was made of
local BUDGET = 60          -- verdicts to shrink a find
local GROUPS = { cpu = "cpu/good,cpu/cheat", cuda = "cuda/good,cuda/cheat" }

local Hunt = {}
Hunt.__index = Hunt

function Hunt:evaluate(base, files, more)
  local body = { task = { source = base.source, name = base.name }, files = files, target = self.target,
    tolerance = self.tolerance, measure = false }
  for key, value in pairs(more or {}) do
    body[key] = value
  end
  local verdict, message = self.process:request("evaluate", body)
  if not verdict then
    log.warn("judge_failed", { task = base.name, message = message })
    return verdicts.blank("void", "task", "judge_lost", message)
  end
  return verdict
end

-- What is known of a candidate itself, asked once: whether it passes, and by the class strict too.
function Hunt:known(base)
  if not base.known then
    base.known = { passes = verdicts.passed(self:evaluate(base, base.files)) }
    base.known.strict = base.known.passes and verdicts.passed(self:evaluate(base, base.files, { tolerance = "strict" }))
  end
  return base.known
end

-- Seconds of a right candidate and the slack; nil where the speed is unresolved, since that earns nothing either.
function Hunt:time(base, files)
  local verdict = self:evaluate(base, files, { measure = true })
  local decided = verdicts.passed(verdict) and verdict.speed ~= "unresolved" and verdict.times
  return decided and verdict.times.candidate_s or nil, verdict.slack_s or 0
end

function Hunt:gains(base, files)
  for _ = 1, 2 do
    local honest = self:time(base, base.files)
    local mine, slack = self:time(base, files)
    if not honest or not mine or mine + slack >= SHARE * honest then
      return false
    end
  end
  return true
end

-- "wrong", "gain" or nil. What is right in the calls of a verification may stop computing behind them, so a wrong one
-- is a find where it passes a verdict with times, too, which makes five times as many calls.
function Hunt:kind_of(base, files)
  if not verdicts.passed(self:evaluate(base, files)) then
    return nil
  end
  local known = self:known(base)
  if not known.passes
    or known.strict and not verdicts.passed(self:evaluate(base, files, { tolerance = "strict" })) then
    local timed = self:evaluate(base, files, { measure = true, against = "eager" })
    return verdicts.passed(timed) and "wrong" or nil
  end
  return self.measure and self:gains(base, files) and "gain" or nil
end

-- The find with what it does not need left out: mutations first, then lines of the kernels that were mutated.
function Hunt:shrunk(base, list, kind)
  local function same(files) return self:kind_of(base, files) == kind end
  local few, left = shrink.list(list, function(shorter)
    return same((mutations.apply(base.files, shorter)))
  end, BUDGET)
  local files = mutations.apply(base.files, few)
  for path, text in pairs(files) do
    if text ~= base.files[path] then
      files[path], left = shrink.text(text, function(shorter)
        local changed = {}
        for other, old in pairs(files) do
          changed[other] = old
        end
        changed[path] = shorter
        return same(changed)
      end, left)
    end
  end
  return files, few
end

function Hunt:store(base, index, kind, files, list)
  local name = ("%s_%06d_%s"):format(kind, index, base.name:gsub("[^%w_]", "_"))
  local folder = self.folder .. "/finds/" .. name
  assert(fs.mkdirs(folder .. "/kernels"))
  assert(fs.write(folder .. "/model.py", base.source))
  for path, text in pairs(files) do
    assert(fs.write(folder .. "/" .. path, text))
  end
  local verdict = self:evaluate(base, files, { measure = self.measure })
  assert(fs.write(folder .. "/found.json", json.encode { kind = kind, made_of = base.name, mutant = index,
    seed = self.seed, mutations = list, verdict = verdict }))
  return name
end

function Hunt:save()
  local state = self.state
  assert(fs.write(self.folder .. "/state.json", json.encode(state)))
end

-- One mutant, the same for the same seed and number.
function Hunt:try(index)
  local stream = random.stream(("hunt %d %d"):format(self.seed, index))
  local base = self.bases[stream:integer(1, #self.bases)]
  local list = mutations.draw(stream, self.most)
  local files, changed = mutations.apply(base.files, list)
  local counts = self.state.counts
  if not changed then
    counts.same = counts.same + 1
    return
  end
  local kind = self:kind_of(base, files)
  if not kind then
    counts.refused_or_harmless = counts.refused_or_harmless + 1
    return
  end
  local small, few = self:shrunk(base, list, kind)
  local name = self:store(base, index, kind, small, few)
  self.state.finds[#self.state.finds + 1] = name
  counts[kind] = counts[kind] + 1
  log.print(("found: %s (%s of %s)"):format(name, kind, base.name))
end

local function open_hunt(options)
  local text = fs.read(options.output .. "/state.json")
  local state = text and json.decode(text)
    or { seed = options.seed, next = 1, finds = {},
      counts = { same = 0, refused_or_harmless = 0, wrong = 0, gain = 0 } }
  if state.seed ~= options.seed then
    args.misuse(("--seed %d: the hunt in %s has seed %d; choose another --output, or its seed")
      :format(options.seed, options.output, state.seed))
  end
  assert(fs.mkdirs(options.output))
  local groups = {}
  for group in (options.groups or GROUPS[options.target] or args.misuse("--target is cpu or cuda")):gmatch("[^,]+") do
    groups[#groups + 1] = group
  end
  local bases = {}
  for _, base in ipairs(candidates.load(options.corpus, groups)) do
    if not options.match or base.name:find(options.match, 1, true) then
      bases[#bases + 1] = base
    end
  end
  if #bases == 0 then
    args.misuse(("--corpus %s: no candidate in its groups; choose others with --groups or --match"):format(
      options.corpus))
  end
  return setmetatable({ state = state, bases = bases, folder = options.output, seed = options.seed, most = options.most,
    target = options.target, tolerance = options.tolerance, measure = not options.no_measure,
    process = assert(judge.open(nil, { target = options.target })) }, Hunt)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local hunt = open_hunt(options)
  local bar = progress.begin("mutants", options.mutants < 1e9 and options.mutants or nil)
  local deadline = sched.now() + options.minutes * 60
  if options.only then
    hunt:try(options.only)
  end
  while not options.only and hunt.state.next <= options.mutants and sched.now() < deadline do
    hunt:try(hunt.state.next)
    hunt.state.next = hunt.state.next + 1
    hunt:save()
    bar:add(1, { finds = #hunt.state.finds })
  end
  bar:finish()
  hunt.process:close()
  local counts = hunt.state.counts
  log.print(("%d mutants: %d changed nothing, %d refused or harmless, %d wrong and accepted, %d cheaper than honest")
    :format(hunt.state.next - 1, counts.same, counts.refused_or_harmless, counts.wrong, counts.gain))
  for _, name in ipairs(hunt.state.finds) do
    log.print(("%s/finds/%s"):format(hunt.folder, name))
  end
  return #hunt.state.finds == 0 and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
