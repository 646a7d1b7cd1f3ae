-- Line differences of texts, for people: unified hunks.

local diff = {}

local CONTEXT = 3
local MOST_EDITS = 2000  -- beyond it the whole text counts as replaced

local function lines_of(text)
  local lines = {}
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
  end
  return text == "" and {} or lines
end

-- Myers' greedy algorithm: the furthest reaching paths for each number of edits, kept to walk back.
local function trace_of(a, b)
  local reach, trace = { [1] = 0 }, {}
  for edits = 0, math.min(#a + #b, MOST_EDITS) do
    local copy = {}
    for k, x in pairs(reach) do
      copy[k] = x
    end
    trace[#trace + 1] = copy
    for k = -edits, edits, 2 do
      local down = k == -edits or (k ~= edits and reach[k - 1] < reach[k + 1])
      local x = down and reach[k + 1] or reach[k - 1] + 1
      local y = x - k
      while x < #a and y < #b and a[x + 1] == b[y + 1] do
        x, y = x + 1, y + 1
      end
      reach[k] = x
      if x >= #a and y >= #b then
        return trace
      end
    end
  end
end

-- Steps from the first line to the last: {" " | "-" | "+", line}.
local function steps_of(a, b)
  local trace, steps = trace_of(a, b), {}
  if not trace then
    for _, line in ipairs(a) do
      steps[#steps + 1] = { "-", line }
    end
    for _, line in ipairs(b) do
      steps[#steps + 1] = { "+", line }
    end
    return steps
  end
  local x, y = #a, #b
  local back = {}
  for edits = #trace - 1, 0, -1 do
    local reach, k = trace[edits + 1], x - y
    local down = k == -edits or (k ~= edits and reach[k - 1] < reach[k + 1])
    local before = down and k + 1 or k - 1
    local from_x = reach[before]
    local from_y = from_x - before
    while x > from_x and y > from_y and x > 0 and y > 0 do
      back[#back + 1] = { " ", a[x] }
      x, y = x - 1, y - 1
    end
    if edits > 0 then
      back[#back + 1] = down and { "+", b[y] } or { "-", a[x] }
      x, y = from_x, from_y
    end
  end
  for i = #back, 1, -1 do
    steps[#steps + 1] = back[i]
  end
  return steps
end

-- Ranges of steps that belong together: changes with the lines around them.
local function hunks_of(steps)
  local hunks, last = {}, nil
  for index, step in ipairs(steps) do
    if step[1] ~= " " then
      local first, stop = math.max(1, index - CONTEXT), math.min(#steps, index + CONTEXT)
      if last and first <= last[2] + 1 then
        last[2] = stop
      else
        last = { first, stop }
        hunks[#hunks + 1] = last
      end
    end
  end
  return hunks
end

local function range(begin, count)
  return count == 1 and tostring(begin) or ("%d,%d"):format(count == 0 and begin - 1 or begin, count)
end

--- The difference of two texts as a unified diff; "" when they are equal. nil stands for no file.
---@param path string
---@param before string|nil|false
---@param after string|nil|false
---@return string
function diff.unified(path, before, after)
  if before == after or not before and not after then
    return ""
  end
  local steps = steps_of(lines_of(before or ""), lines_of(after or ""))
  local out = { "--- " .. (before and "a/" .. path or "/dev/null"), "+++ " .. (after and "b/" .. path or "/dev/null") }
  local old, new, at = 1, 1, 1
  for _, hunk in ipairs(hunks_of(steps)) do
    while at < hunk[1] do
      old, new, at = old + 1, new + 1, at + 1
    end
    local body, minus, plus = {}, 0, 0
    for index = hunk[1], hunk[2] do
      local sign, line = steps[index][1], steps[index][2]
      minus = minus + (sign ~= "+" and 1 or 0)
      plus = plus + (sign ~= "-" and 1 or 0)
      body[#body + 1] = sign .. line
    end
    out[#out + 1] = ("@@ -%s +%s @@"):format(range(old, minus), range(new, plus))
    out[#out + 1] = table.concat(body, "\n")
    old, new, at = old + minus, new + plus, hunk[2] + 1
  end
  return table.concat(out, "\n") .. "\n"
end

--- The differences of two sets of files, by path.
---@param before table<string, string>
---@param after table<string, string>
---@return string
function diff.files(before, after)
  local paths, seen = {}, {}
  for _, files in ipairs { before, after } do
    for path in pairs(files) do
      if not seen[path] then
        seen[path], paths[#paths + 1] = true, path
      end
    end
  end
  table.sort(paths)
  local parts = {}
  for index, path in ipairs(paths) do
    parts[index] = diff.unified(path, before[path], after[path])
  end
  return table.concat(parts)
end

return diff
