-- What tests/lua/ranks_test.lua starts as a process: a tiny pipeline up to the stage that its first argument names, with
-- a judge that looks at hashes, on as many ranks as its options say. At the first step of single-turn PPO it kills what
-- the second argument says: "nobody", the second "rank", or "itself" and says in a file which process that rank was.

local args = require "lib.args"
local compose = require "synthesis.compose"
local fs = require "khost.fs"
local hash_judge = require "tests.lua.hash_judge"
local machine = require "khost.machine"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"

local STAGES = { "synthesize", "filter", "base", "supervised", "single_turn", "collect", "rft", "value", "agentic" }
local ABOUT = { name = "tests/lua/ranks_run.lua", summary = "a tiny pipeline on several ranks" }

-- The process of a rank is a child of this one, as the shell is that looks for it.
local KILL = [=[for folder in /proc/[0-9]*; do
  if grep -q "^PPid:[[:space:]]*$PPID$" $folder/status && grep -q training/rank.lua $folder/cmdline; then
    case $0 in
      rank) kill -9 ${folder#/proc/} ;;
      itself) echo ${folder#/proc/} >"$1"; kill -9 $PPID ;;
    esac
  fi
done 2>/dev/null]=]

local graphs = {}  -- by source: what the tracer would find

local function verdict_of(body)
  local code = body.files["kernels/k.cpp"]
  local number = tonumber(fs.sha256(code or ""):sub(1, 4), 16)
  return hash_judge.verdict(body, code ~= nil and number % 4 > 0, number)
end

local function know_graphs()
  local task = compose.task
  compose.task = function(...)
    local made = task(...)
    graphs[made.source] = made.graph
    return made
  end
end

local function kill_at(stage, step, whom)
  local keep = ppo.keep_metrics
  ppo.keep_metrics = function(run, of, at, ...)
    if of == stage and at == step then
      assert(machine.run({ "sh", "-c", KILL, whom, run.folder .. "/process" }))
    end
    return keep(run, of, at, ...)
  end
end

local function run(list)
  local last = table.remove(list, 1)
  know_graphs()
  kill_at("single_turn", 1, table.remove(list, 1))
  local judging, counts = hash_judge.fake("cpu", graphs, verdict_of)
  local this = pipeline.open(args.parse(pipeline.OPTIONS, list, ABOUT), ABOUT.name, judging)
  for _, name in ipairs(STAGES) do
    this:stage(require("recipes.stages." .. name))
    if name == last then
      break
    end
  end
  this:close("done")
  return (counts.evaluate or 0) > 0 and 0 or 3
end

return { name = ABOUT.name, summary = ABOUT.summary, run = run }
