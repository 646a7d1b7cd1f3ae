-- Makes a suite of tasks: crawls the installed PyTorch for operators, stacks up to five, drops what teaches nothing
-- with a reason each, mends what answers without work pass, and writes task files, tasks.jsonl, quarantine.jsonl and
-- tables.
--
--   ./khost recipes/synthesize.lua --set count=200
--
-- What was killed goes on where it was when the same command is given again: each answer is kept as it comes.
--
-- Departures from the paper: chance composes unless a policy is named; without transformers installed its share of the
-- mix goes to the other depths.

local args = require "lib.args"
local ask = require "synthesis.ask"
local fs = require "khost.fs"
local making = require "synthesis.making"

local OPTIONS = {
  { name = "--count", kind = "number", default = 200, help = "tasks that are composed" },
  { name = "--output", kind = "text", help = "folder for the suite (default: suites/synthesized-COUNT-SEED)" },
  { name = "--resume", kind = "flag",
    help = "go on with a suite that was begun; the same command without it does so too" },
  { name = "--evaluation", kind = "list", help = "suite that no task may resemble; may be repeated" },
  { name = "--composer", kind = "text",
    help = "URL of a chat completions server that composes, with /v1; else chance" },
  { name = "--model", kind = "text", help = "of that server" },
  { name = "--rubric", kind = "text", default = "rubrics.admission", help = "module that says what is kept" },
  { name = "--eager-ms", kind = "text", default = "1,100", help = "least and most eager time" },
  { name = "--similarity", kind = "number", default = 0.9, help = "most, to any evaluation task" },
  { name = "--jobs", kind = "number",
    help = "tasks measured at once (default: judge.jobs of khost.toml; cuda: the cores but two, at most 14)" },
  { name = "--timeout", kind = "number", default = 120, help = "seconds of one stage of one task" },
  { name = "--target", kind = "text", default = "cpu", help = "cpu, or cuda: sizes and times for a GPU" },
  { name = "--no-compile", kind = "flag", help = "leave torch.compile out" },
  { name = "--no-repair", kind = "flag", help = "quarantine at once what answers without work pass" },
  { name = "--set", kind = "list", help = "the same as --KEY VALUE: --set count=200" },
  { name = "--seed", kind = "number", default = 1, help = "of every draw" },
}
local ABOUT = { name = "recipes/synthesize.lua", summary = "makes a suite of tasks" }

-- `--set count=200` is `--count 200`.
local function unfolded(list)
  local out, index = {}, 1
  while index <= #list do
    local word, value = list[index], list[index]:match("^%-%-set=(.*)$")
    if word == "--set" then
      index = index + 1
      value = list[index] or args.misuse("--set: a value is missing")
    end
    if value then
      local key, rest = value:match("^([%w_%-]+)=(.*)$")
      if not key then
        args.misuse(("--set %s: KEY=VALUE expected"):format(value))
      end
      out[#out + 1], out[#out + 2] = "--" .. key:gsub("_", "-"), rest
    else
      out[#out + 1] = word
    end
    index = index + 1
  end
  return out
end

local function run(list)
  local options = args.parse(OPTIONS, unfolded(list), ABOUT)
  if options.target ~= "cpu" and options.target ~= "cuda" then
    args.misuse(("--target %s: cpu or cuda expected"):format(options.target))
  end
  local least, most = options.eager_ms:match("^([%d%.]+),([%d%.]+)$")
  if not least then
    args.misuse(("--eager-ms %s: LEAST,MOST expected"):format(options.eager_ms))
  end
  options.limits = { eager_ms = { tonumber(least), tonumber(most) }, similarity = options.similarity }
  options.output = options.output or ("suites/synthesized-%d-%d"):format(options.count, options.seed)
  if options.resume and fs.exists(options.output .. "/work/asked.json") ~= "file" then
    args.misuse(("--resume: %s holds no suite that was begun"):format(options.output))
  end
  if options.composer then
    options.composer = ask.endpoint(options.composer, options.model or args.misuse("--composer needs --model"))
  end
  return making.run(options)
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
