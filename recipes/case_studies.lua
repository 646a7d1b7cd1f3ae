-- The case studies as skill examples, judged under live weights: `khost recipes/case_studies.lua`. Beside each speed-up
-- stands the floor, the time that reading inputs and weights and writing outputs once would take at the bandwidth of this
-- card, and how near the kernel is to it: where a wanted factor is out of reach, the floor shows it.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "khost.judge"

local OPTIONS = {
  { name = "--folder", kind = "text", default = "skills/cuda-kernel/examples", help = "folder of workspaces" },
  { name = "--json", kind = "text", help = "file for the records, one a line" },
}
local ABOUT = { name = "case_studies", summary = "judges the examples of the CUDA skill" }
local WANTED = { diag_matmul = 73, gemm_divide_sum = 24, basic_block = 3.59 }  -- against torch.compile

local function files_of(folder)
  local files = { ["model_new.py"] = fs.read(folder .. "/model_new.py") }
  for _, name in ipairs(fs.list(folder .. "/kernels") or {}) do
    files["kernels/" .. name] = fs.read(folder .. "/kernels/" .. name)
  end
  return files
end

local function row(name, verdict)
  local times, evidence = verdict.times, verdict.evidence
  if verdict.status ~= "ok" or not times.candidate_s then
    return ("| %s | %s: %s %s |"):format(name, verdict.status, verdict.reason, verdict.detail:sub(1, 200))
  end
  local function against(kind)
    local speedup = verdict.speedup[kind]
    return speedup and ("%.1f us, %.2fx"):format(times[kind .. "_s"] * 1e6, speedup) or "not timed"
  end
  local floor = evidence.floor_s
  return ("| %s | %.1f us | %s | %s | %s | %s | %s |"):format(name, times.candidate_s * 1e6, against "eager",
    against "compile", WANTED[name] and ("%gx"):format(WANTED[name]) or "-",
    floor and ("%.1f us"):format(floor * 1e6) or "-",
    floor and ("%.0f %%"):format(100 * floor / times.candidate_s) or "-")
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local process, unavailable = judge.open()
  if not process then args.misuse(unavailable) end
  local records, card = {}, nil
  local rows = {}
  for _, entry in ipairs(fs.list(options.folder) or {}) do
    local name = entry:gsub("/$", "")
    local folder = options.folder .. "/" .. name
    local source = fs.read(folder .. "/model.py")
    if source then
      local verdict, why = process:request("evaluate", {
        task = { source = source, name = name }, files = files_of(folder), target = "cuda",
      })
      if not verdict then error(name .. ": " .. why, 0) end
      card = card or (verdict.evidence.device or {}).name
      rows[#rows + 1] = row(name, verdict)
      records[#records + 1] = json.encode { name = name, verdict = verdict }
    end
  end
  process:close()
  print(card or "no GPU")
  print("| task | kernel | eager | torch.compile | wanted | floor | share of the floor |")
  print("| --- | --- | --- | --- | --- | --- | --- |")
  print(table.concat(rows, "\n"))
  if options.json then fs.write(options.json, table.concat(records, "\n") .. "\n") end
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
