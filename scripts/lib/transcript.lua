-- A trajectory as a text for reading: who said what, what was called, what came back, which files became different.

local diff = require "lib.diff"
local json = require "khost.json"
local runs = require "run.runs"
local terminal = require "khost.terminal"
local verdicts = require "judge.verdict"

local transcript = {}

local CODES = { title = "1;36", call = "33", error = "31", good = "32", faint = "2", added = "32", removed = "31",
  hunk = "36" }
local MOST_LINES = 60  -- of one observation, unless all is asked for

local Writer = {}
Writer.__index = Writer

-- One line, of which strangers may have written any part.
function Writer:paint(kind, text)
  text = terminal.plain(text)
  return self.colour and ("\27[%sm%s\27[0m"):format(CODES[kind], text) or text
end

-- A line that is painted already.
function Writer:line(text)
  self.out[#self.out + 1] = text
end

function Writer:said(text)
  self:line(terminal.plain(text))
end

function Writer:rule(title)
  self:line("")
  self:line(self:paint("title", ("-- %s %s"):format(title, ("-"):rep(math.max(0, self.width - #title - 4)))))
end

function Writer:body(text, kind)
  text = terminal.plain(text):gsub("\n+$", "")
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
  end
  local most = self.all and #lines or MOST_LINES
  for index, line in ipairs(lines) do
    if index <= most / 2 or index > #lines - most / 2 then
      self:line(kind and self:paint(kind, line) or terminal.plain(line))
    elseif index == math.floor(most / 2) + 1 then
      self:line(self:paint("faint", ("[%d lines; --all shows them]"):format(#lines - 2 * math.floor(most / 2))))
    end
  end
end

function Writer:diff(text)
  for line in text:gmatch("(.-)\n") do
    local sign = line:sub(1, 1)
    local kind = sign == "+" and "added" or sign == "-" and "removed" or sign == "@" and "hunk" or nil
    self:line(kind and self:paint(kind, line) or terminal.plain(line))
  end
end

-- A call on few lines: short arguments beside its name, long ones below.
function Writer:call(call)
  local short, long = {}, {}
  for name, value in pairs(call.arguments or {}) do
    local text = type(value) == "string" and value or json.encode(value)
    if #text > 60 or text:find("\n", 1, true) then
      long[#long + 1] = { name = name, text = text }
    else
      short[#short + 1] = ("%s=%s"):format(name, text)
    end
  end
  table.sort(short)
  table.sort(long, function(a, b) return a.name < b.name end)
  self:line(self:paint("call", ("> %s %s"):format(call.name or "(unreadable)", table.concat(short, " "))))
  for _, part in ipairs(long) do
    self:line(self:paint("call", ("  %s:"):format(part.name)))
    self:body(part.text)
  end
  local facts = {}
  for _, fact in ipairs { call.status ~= "ok" and call.status or false, call.label or false } do
    facts[#facts + 1] = fact or nil
  end
  if call.coerced then
    facts[#facts + 1] = "coerced " .. table.concat(call.coerced, " ")
  end
  if #facts > 0 then
    self:line(self:paint("error", ("[%s]"):format(table.concat(facts, ", "))))
  end
  self:body(call.observation or "", "faint")
end

function Writer:turn(turn, files)
  local facts = { ("%.1f s"):format(turn.seconds or 0) }
  if turn.label then
    table.insert(facts, 1, turn.label)
  end
  if (turn.token_count or 0) > 0 then
    facts[#facts + 1] = ("%d tokens"):format(turn.token_count)
  end
  self:rule(("turn %d (%s)"):format(turn.index, table.concat(facts, ", ")))
  if turn.thought then
    self:body(turn.thought, "faint")
  end
  if turn.text and turn.text ~= "" then
    self:body(turn.text)
  end
  for _, call in ipairs(turn.calls or {}) do
    self:call(call)
  end
  if not turn.calls and turn.observation and turn.observation ~= "" then
    self:line(self:paint(turn.status == "ok" and "good" or "error", "< " .. (turn.tool or "reply")))
    self:body(turn.observation, "faint")
  end
  local paths = {}
  for path in pairs(turn.changes or {}) do
    paths[#paths + 1] = path
  end
  table.sort(paths)
  for _, path in ipairs(paths) do
    local text = turn.changes[path]
    self:diff(diff.unified(path, files[path], text))
    files[path] = text or nil
  end
end

function Writer:verdict(verdict)
  self:rule("verdict")
  local times, speedup = verdict.times or {}, verdict.speedup or {}
  self:line(self:paint(verdicts.passed(verdict) and "good" or "error", ("%s%s%s"):format(verdict.status,
    verdict.stage and " at "
    .. verdict.stage or "", verdict.reason and verdict.reason ~= "" and ": " .. verdict.reason or "")))
  if times.candidate_s then
    self:line(("candidate %s, eager %s (%sx), compile %s (%sx)"):format(runs.duration(times.candidate_s),
      runs.duration(times.eager_s), runs.number(speedup.eager), runs.duration(times.compile_s),
        runs.number(speedup.compile)))
  end
  if verdict.detail and verdict.detail ~= "" then
    self:body(verdict.detail)
  end
end

--- The text of a stored trajectory.
---@param trajectory table
---@param options? {colour?: boolean, all?: boolean, width?: integer}   all: nothing is left out
---@return string
function transcript.text(trajectory, options)
  options = options or {}
  local writer = setmetatable({ out = {}, colour = options.colour, all = options.all, width = math.min(options.width
    or 100, 120) }, Writer)
  local labels = {}
  for name, count in pairs(trajectory.labels or {}) do
    labels[#labels + 1] = ("%s %d"):format(name, count)
  end
  table.sort(labels)
  writer:said(("trajectory %s: %s step %s index %s, task %s, policy %s"):format(runs.number(trajectory.id),
    trajectory.stage or "-",
    runs.number(trajectory.step), runs.number(trajectory.index), trajectory.name or trajectory.task or "-",
      trajectory.policy or "-"))
  writer:said(("ended by %s after %s turns, %s tokens, %s; reward %s, script %s%s"):format(trajectory.status or "-",
    runs.number(trajectory.turn_count), runs.number(trajectory.token_count), runs.duration(trajectory.seconds),
    runs.number(trajectory.reward), (trajectory.script_hash or "-"):sub(1, 12), #labels > 0
      and "; " .. table.concat(labels, ", ") or ""))
  if trajectory.error then
    writer:line(writer:paint("error", trajectory.error))
  end
  for _, message in ipairs(trajectory.prompt or {}) do
    writer:rule(message.role or "message")
    writer:body(message.content or message.text or "", "faint")
  end
  local files = {}
  for path, text in pairs(trajectory.start or {}) do
    files[path] = text
  end
  for _, turn in ipairs(trajectory.turns or {}) do
    writer:turn(turn, files)
  end
  if trajectory.verdict then
    writer:verdict(trajectory.verdict)
  end
  return table.concat(writer.out, "\n") .. "\n"
end

return transcript
