-- The kernels that a reader wants to see first: the fastest and the slowest right ones, and a wrong one of every common
-- kind, each beside the reference.

local diff = require "lib.diff"
local json = require "khost.json"
local template = require "run.template"

local kernels = {}

kernels.MOST = 6            -- of each list
local MOST_BYTES = 24000    -- of one file

local COLUMNS = [[v.id AS id, coalesce(v.stage, '') AS stage, v.step AS step, v.trajectory AS trajectory, v.task AS task,
  coalesce(t.name, v.task, '') AS name, coalesce(v.policy, '') AS policy, v.status AS status,
  coalesce(v.judge_stage, '') AS judge_stage, coalesce(v.reason, '') AS reason, coalesce(v.detail, '') AS detail,
  v.candidate_s AS candidate_s, v.eager_s AS eager_s, v.compile_s AS compile_s, v.speedup_eager AS speedup_eager,
  v.speedup_compile AS speedup_compile, v.reward AS reward, v.files AS files,
  json_extract(v.data, '$.speed') AS speed, t.source AS source]]

-- Of kernels that were judged more than once, one; SQLite takes the other columns from the row of the greatest value.
local TIMED = "SELECT " .. COLUMNS .. [[, max(v.id) FROM verdicts v LEFT JOIN tasks t ON t.id = v.task
  WHERE v.id IN (SELECT id FROM (SELECT max(id) AS id, coalesce(speedup_compile, speedup_eager) AS speed FROM verdicts
    WHERE correct = 1 AND candidate_s > 0 AND coalesce(speedup_compile, speedup_eager) IS NOT NULL
    GROUP BY task, artefact_hash ORDER BY speed %s LIMIT ?))
  GROUP BY v.id ORDER BY coalesce(v.speedup_compile, v.speedup_eager) %s]]
local WRONG = "SELECT " .. COLUMNS .. [[, g.count AS count FROM (SELECT max(id) AS id, count(*) AS count FROM verdicts
    WHERE correct = 0 AND counts = 'failed' AND files IS NOT NULL GROUP BY status, reason ORDER BY count DESC LIMIT ?) g
  JOIN verdicts v ON v.id = g.id LEFT JOIN tasks t ON t.id = v.task ORDER BY g.count DESC]]

local function cut(text)
  if #text <= MOST_BYTES then
    return text
  end
  return text:sub(1, MOST_BYTES) .. ("\n[%d bytes more]"):format(#text - MOST_BYTES)
end

-- What the candidate itself wrote: the headers of the templates are the same everywhere. A header that it changed, or
-- one of an older template, comes last.
local function own_files(files, headers)
  local own, paths, given = {}, {}, {}
  for path in pairs(files) do
    paths[#paths + 1] = path
  end
  table.sort(paths, function(a, b)
    local first, second = headers[a] ~= nil, headers[b] ~= nil
    if first ~= second then
      return second
    end
    return a < b
  end)
  for _, path in ipairs(paths) do
    if headers[path] and headers[path][files[path]] then
      given[#given + 1] = path
    else
      own[#own + 1] = { path = path, text = cut(files[path]) }
    end
  end
  return json.list(own), json.list(given)
end

local function headers_of_templates()
  local found = {}
  for _, target in ipairs { "cpu", "cuda" } do
    for path, text in pairs(template.with({}, template.skill(target))) do
      found[path] = found[path] or {}
      found[path][text] = true
    end
  end
  return found
end

local function describe(row, headers)
  local files = row.files and json.decode(row.files) or {}
  row.files, row.given = own_files(files, headers)
  -- A candidate in Python is a changed copy of the reference, so a difference by lines says most.
  if files["model_new.py"] and row.source then
    row.diff = cut(diff.unified("model.py -> model_new.py", row.source, files["model_new.py"]))
  end
  row.source = nil  -- the page has it once for each task
  row["max(v.id)"] = nil
  return row
end

local function list_of(run, sql, headers)
  local list = {}
  for index, row in ipairs(assert(run:query(sql, { kernels.MOST }))) do
    list[index] = describe(row, headers)
  end
  return json.list(list)
end

--- The lists; `wrong` has the number of verdicts of its kind as `count`.
---@param run khost.Store
---@return {best: table[], worst: table[], wrong: table[]}
function kernels.of(run)
  local headers = headers_of_templates()
  local best = list_of(run, TIMED:format("DESC", "DESC"), headers)
  local worst, seen = {}, {}
  for _, row in ipairs(best) do
    seen[row.id] = true
  end
  for _, row in ipairs(list_of(run, TIMED:format("ASC", "ASC"), headers)) do
    worst[#worst + 1] = not seen[row.id] and row or nil
  end
  return { best = best, worst = json.list(worst), wrong = list_of(run, WRONG, headers) }
end

return kernels
