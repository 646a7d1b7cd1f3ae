-- Counts of a service, and their text in the form that Prometheus reads (text format 0.0.4).

local metrics = {}

local Metrics = {}
Metrics.__index = Metrics

local BOUNDS = { 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120 }  -- seconds

local HELP = {
  requests_total = { "counter", "answers by route and status" },
  verdicts_total = { "counter", "verdicts by status" },
  feedback_total = { "counter", "answers to agents by kind" },
  rewards_void_total = { "counter", "verdicts without a reward, by status" },
  client_device_seconds_total = { "counter", "seconds of the device by client" },
  client_build_seconds_total = { "counter", "seconds of builds by client" },
  client_disk_megabytes_total = { "counter", "megabytes that candidates left on disk, by client" },
  connections_accepted_total = { "counter", "connections that were accepted" },
  connections_turned_away_total = { "counter", "connections that were answered 503 or closed" },
  connections_open = { "gauge", "connections that are open" },
  body_bytes = { "gauge", "bytes of the bodies of requests that are not answered yet" },
  episodes_total = { "counter", "token-step episodes that ended, by ending" },
  episodes_void_total = { "counter", "token-step episodes without a reward, by ending" },
  episode_tokens_total = { "counter", "tokens of episodes: drawn by clients, or read by their models" },
  episodes_open = { "gauge", "token-step episodes that are open" },
  episode_step_seconds = { "histogram", "time from a step's tokens to its answer" },
  queue_waiting = { "gauge", "requests that wait for the judge" },
  queue_running = { "gauge", "requests that the judge works on" },
  tasks_loaded = { "gauge", "tasks of the loaded suites" },
  lua_memory_bytes = { "gauge", "memory of scripts" },
  resident_memory_bytes = { "gauge", "resident memory of this process" },
  queue_wait_seconds = { "histogram", "time that requests waited for the judge" },
  verdict_seconds = { "histogram", "time from a request's turn to its verdict" },
}

---@return table
function metrics.new()
  return setmetatable({ values = {}, histograms = {} }, Metrics)
end

local function escaped(value)
  return (tostring(value):gsub("\\", "\\\\"):gsub('"', '\\"'):gsub("\n", "\\n"))
end

local function labelled(labels)
  local names, parts = {}, {}
  for name in pairs(labels or {}) do
    names[#names + 1] = name
  end
  table.sort(names)
  for index, name in ipairs(names) do
    parts[index] = ('%s="%s"'):format(name, escaped(labels[name]))
  end
  return #parts > 0 and "{" .. table.concat(parts, ",") .. "}" or ""
end

-- Raises for a name that has no HELP: its kind would be unknown.
local function series(self, name)
  assert(HELP[name], "no metric " .. name)
  self.values[name] = self.values[name] or {}
  return self.values[name]
end

--- Adds to a counter.
---@param name string
---@param labels? table<string, string>
---@param amount? number   1
function Metrics:add(name, labels, amount)
  local values, key = series(self, name), labelled(labels)
  values[key] = (values[key] or 0) + (amount or 1)
end

--- Sets a gauge, or a counter that is kept elsewhere.
---@param name string
---@param value number
---@param labels? table<string, string>
function Metrics:set(name, value, labels)
  series(self, name)[labelled(labels)] = value
end

--- Counts an observation of seconds.
---@param name string
---@param seconds number
function Metrics:observe(name, seconds)
  assert(HELP[name] and HELP[name][1] == "histogram", "no histogram " .. name)
  local histogram = self.histograms[name] or { sum = 0, count = 0, buckets = {} }
  self.histograms[name] = histogram
  histogram.sum, histogram.count = histogram.sum + seconds, histogram.count + 1
  for index, bound in ipairs(BOUNDS) do
    if seconds <= bound then
      histogram.buckets[index] = (histogram.buckets[index] or 0) + 1
    end
  end
end

local function add_histogram(lines, name, histogram)
  for index, bound in ipairs(BOUNDS) do
    lines[#lines + 1] = ('khost_%s_bucket{le="%g"} %d'):format(name, bound, histogram.buckets[index] or 0)
  end
  lines[#lines + 1] = ('khost_%s_bucket{le="+Inf"} %d'):format(name, histogram.count)
  lines[#lines + 1] = ("khost_%s_sum %.6f"):format(name, histogram.sum)
  lines[#lines + 1] = ("khost_%s_count %d"):format(name, histogram.count)
end

---@return string
function Metrics:text()
  local names, lines = {}, {}
  for name in pairs(HELP) do
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local values, histogram = self.values[name], self.histograms[name]
    if values or histogram then
      lines[#lines + 1] = ("# HELP khost_%s %s"):format(name, HELP[name][2])
      lines[#lines + 1] = ("# TYPE khost_%s %s"):format(name, HELP[name][1])
    end
    local keys = {}
    for key in pairs(values or {}) do
      keys[#keys + 1] = key
    end
    table.sort(keys)
    for _, key in ipairs(keys) do
      lines[#lines + 1] = ("khost_%s%s %.17g"):format(name, key, values[key])
    end
    if histogram then
      add_histogram(lines, name, histogram)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return metrics
