-- The case studies as skill examples, judged under live weights: `khost recipes/case_studies.lua`. Beside each speed-up
-- stand its floors on this card, from rates measured here: what reading inputs and weights and writing outputs once
-- takes at the bandwidth of a large copy, and what the reference's products take at the rate of a large torch.mm.
-- Where a wanted factor is out of reach, the binding floor shows it: `at most` is the speed-up of a kernel that reaches
-- it.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "judge.client"
local log = require "khost.log"
local profiler = require "khost.profiler"
local verdicts = require "judge.verdict"

local OPTIONS = {
  { name = "--folder", kind = "text", default = "skills/cuda-kernel/examples", help = "folder of workspaces" },
  { name = "--json", kind = "text", help = "file for the records, one a line" },
  { name = "--no-products", kind = "flag", help = "leave out the floor of the products, which takes a profile each" },
}
local ABOUT = { name = "case_studies", summary = "judges the examples of the CUDA skill" }
local WANTED = { diag_matmul = 73, gemm_divide_sum = 24, basic_block = 3.59 }  -- against torch.compile
-- The fastest operands that keep the reference's significand, with sums in fp32: its products of matrices are fp32
-- (24 bits), its convolutions TF32 (11 bits, as float16).
local OPERANDS = { diag_matmul = "float32", gemm_divide_sum = "float32", basic_block = "float16" }
local HEAD = { "task", "kernel", "eager", "torch.compile", "wanted", "bytes once", "products", "binds",
  "kernel's share of it", "at most" }

local function files_of(folder)
  local files = { ["model_new.py"] = fs.read(folder .. "/model_new.py") }
  for _, name in ipairs(fs.list(folder .. "/kernels") or {}) do
    files["kernels/" .. name] = fs.read(folder .. "/kernels/" .. name)
  end
  return files
end

local function micros(seconds)
  return ("%.1f us"):format(seconds * 1e6)
end

-- Seconds that the reference's products take at the best rate measured here, and a cell that says so.
local function products(name, profile)
  local flops = profile and profile.work and profile.work.flops
  local rate = profile and profile.ceilings and profile.ceilings.gemm[OPERANDS[name]]
  if not flops or not rate then return nil, "not measured" end
  return flops / rate, ("%s, %s at %.0f TFLOP/s"):format(micros(flops / rate), OPERANDS[name], rate * 1e-12)
end

-- The floor that binds. A kernel that is faster than the products does not compute them all: then bytes are what is
-- left.
local function binding(bytes_s, products_s, candidate_s)
  if products_s and candidate_s >= products_s and products_s > (bytes_s or 0) then return products_s, "products" end
  return bytes_s, products_s and candidate_s < products_s and "bytes (products left out)" or "bytes"
end

local function cells(name, verdict, profile)
  local times, bytes_s = verdict.times, verdict.evidence.floor_s
  local function against(kind)
    local speedup = verdict.speedup[kind]
    return speedup and ("%s, %.2fx"):format(micros(times[kind .. "_s"]), speedup) or "not timed"
  end
  local products_s, text = products(name, profile)
  local floor, what = binding(bytes_s, products_s, times.candidate_s)
  return { name, micros(times.candidate_s), against "eager", against "compile",
    WANTED[name] and ("%gx"):format(WANTED[name]) or "-", bytes_s and micros(bytes_s) or "-", text,
    floor and what or "-", floor and ("%.0f %%"):format(100 * floor / times.candidate_s) or "-",
    floor and times.compile_s and ("%.1fx"):format(times.compile_s / floor) or "-" }
end

local function row(list)
  return "| " .. table.concat(list, " | ") .. " |"
end

-- One case: the verdict, and where it stands, the floor of the products from a profile of the same files.
local function examine(process, name, folder, source, with_products)
  local request = { task = { source = source, name = name }, files = files_of(folder), target = "cuda" }
  local verdict, why = process:request("evaluate", request)
  if not verdict then error(name .. ": " .. why, 0) end
  if not verdicts.passed(verdict) or not verdict.times.candidate_s then
    return verdict, ("| %s | %s: %s %s |"):format(name, verdict.status, verdict.reason, verdict.detail:sub(1, 200))
  end
  local profile
  if with_products then
    request.against = "eager"  -- which counts the products
    profile, why = profiler.measure(process, request)
    if not profile then
      log.warn("not_profiled", { case = name, why = why })
    end
  end
  return verdict, row(cells(name, verdict, profile)), profile
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local process, unavailable = judge.open(nil, { target = "cuda" })
  if not process then args.misuse(unavailable) end
  local records = {}
  for _, entry in ipairs(fs.list(options.folder) or {}) do
    local name = entry:gsub("/$", "")
    local folder = options.folder .. "/" .. name
    local source = fs.read(folder .. "/model.py")
    if source then
      local verdict, line, profile = examine(process, name, folder, source, not options.no_products)
      if #records == 0 then
        print((verdict.evidence.device or {}).name or "no GPU")
        print(row(HEAD))
        print("|" .. (" --- |"):rep(#HEAD))
      end
      print(line)
      records[#records + 1] = json.encode { name = name, verdict = verdict, profile = profile }
    end
  end
  process:close()
  if options.json then fs.write(options.json, table.concat(records, "\n") .. "\n") end
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
