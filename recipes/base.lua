-- Makes the small base model that the CPU target ships with (scripts/policies/tiny): a tokenizer and a decoder,
-- supervised on answers of a teacher that errs on purpose, so that a fifth to two fifths of its first answers are
-- right.
--
-- A departure from the paper, which begins with a model that can write kernels already. Without one, reinforcement has
-- nothing to reinforce: every answer scores -1.

local args = require "lib.args"
local base = require "training.base"
local config = require "khost.config"
local fs = require "khost.fs"
local client = require "judge.client"
local log = require "khost.log"
local runs = require "run.runs"
local sched = require "khost.sched"

local OPTIONS = {
  { name = "--preset", kind = "text", default = "base", help = "numbers: recipes/presets/NAME.toml" },
  { name = "--set", kind = "list", help = "override a key: --set base.seed=2" },
  { name = "--output", kind = "text", required = true,
    help = "folder for config.json, model.safetensors, tokenizer.json" },
  { name = "--hash", kind = "flag", help = "print the hash of the corpus and the losses of 20 steps, and stop" },
}
local ABOUT = { name = "recipes/base.lua", summary = "makes the small base model" }

local CARD = [[
# tiny

The policy that the CPU target begins with: a Llama-shaped decoder that reads the traced graph of a task and writes a C++
kernel (format: `scripts/chat/tiny.lua`). It is meant to be unreliable: its teacher is the rule-based expert, every
variant, slow or fast, equally likely, and over the first %d steps a mistake is planted in %.0f %% of the statements, over
the last %d in %.0f %%. So it can write kernels better than it does, and reinforcement has something to find.

| | |
| --- | --- |
| made by | `./khost recipes/base.lua --output DIR` |
| parameters | %d |
| corpus | %d dialogues, SHA-256 `%s`, seed %d |
| trained | %d steps, %d tokens, %s, last loss %.3f |
| right first answers | %.2f of %d held-out tasks × %d samples, judged (parsed: %.2f) |

The corpus holds no chain of operators that training, validation or test tasks are made of.
]]

-- The first steps of the training, for a check that corpus and trainer are what they were.
local function print_hash(c, machine)
  local dialogues, hash = base.corpus(c)
  log.print("corpus " .. hash)
  local actor = base.model(base.tokenizer(dialogues, c), c, machine)
  base.supervise(actor, dialogues, c, function(step, loss)
    log.print(("step %d loss %.6f"):format(step, loss))
    return step == 20
  end)
  return 0
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local loaded, message = config.load { preset = options.preset, set = options.set }
  if not loaded then
    args.misuse(message)
  end
  local all = config.plain(loaded)
  local c = all.base
  if #c.operators == 0 then
    c.operators = nil
  end
  sched.seed(c.seed)
  if options.hash then
    return print_hash(c, all.machine)
  end
  local judge, unavailable = client.open(all, { target = "cpu" })
  if not judge then
    args.misuse(unavailable)
  end
  local begin = sched.now()
  local result = base.make(c, judge, options.output, { machine = all.machine })
  judge:close()
  assert(fs.write(options.output .. "/CARD.md", CARD:format(c.steps[1], 100 * c.fault_rate[1], c.steps[2],
    100 * c.fault_rate[2], result.parameters, result.dialogues, result.corpus_hash, c.seed,
    result.steps, result.tokens, runs.duration(sched.now() - begin), result.loss, result.pass_rate, c.held_out,
    c.samples, result.parsed)))
  log.print(("%s: pass %.2f"):format(options.output, result.pass_rate))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
