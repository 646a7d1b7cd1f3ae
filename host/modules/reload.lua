-- A generation is one complete evaluation of an entry script and all it requires. A change builds a new one,
-- checks it and swaps once; on any error the last good generation stays and the failure names file and line.
-- Changes are looked for when somebody asks (Handle:get), by content: a training loop asks once a step.
local native = ...
local fs = require "khost.fs"

local LOAD_BUDGET_S = 2

local reload = {}
local boxes = {}  -- name -> { version, data }

local function build(entry, check)
  local files = {}
  local loader = native.loaders.new(function(path, text) files[#files + 1] = { path = path, text = text } end)
  native.budget(LOAD_BUDGET_S)
  local ok, value = pcall(function()
    local built = entry:match("%.lua$") and loader.run_file(entry) or loader.require(entry)
    if check then
      local accepted, reason = check(built)
      if not accepted then error(("%s: %s"):format(entry, reason or "its check failed"), 0) end
    end
    return built
  end)
  native.budget(0)
  return ok, value, files
end

local function hash_of(files)
  local parts = {}
  for i, file in ipairs(files) do parts[i] = file.path .. "\0" .. native.hash(file.text) end
  table.sort(parts)
  return native.hash(table.concat(parts, "\n"))
end

local Handle = {}
Handle.__index = Handle

local function changed(files)
  for _, file in ipairs(files) do
    local stamp = native.stamp(file.path)
    if not stamp or stamp ~= file.stamp then
      if fs.read(file.path) ~= file.text then return true end
      file.stamp = stamp
    end
  end
  return false
end

-- Also the files of a failed attempt are watched: mending an imported file tries again.
local function attempt(self)
  local ok, value, files = build(self.entry, self.check)
  self.watched = files
  if not ok then
    self.failure_ = tostring(value)
    return nil, self.failure_, "bad_input"
  end
  self.failure_ = nil
  self.value, self.files, self.hash_ = value, files, hash_of(files)
  self.generation = self.generation + 1
  for _, fn in ipairs(self.listeners) do fn(value, self.generation) end
  return self.generation
end

-- Builds the first generation at once; an error there is the caller's to handle.
function reload.open(entry, options)
  options = options or {}
  local self = setmetatable({
    entry = entry, check = options.check, generation = 0, listeners = {}, watched = {},
  }, Handle)
  local generation, message, code = attempt(self)
  if not generation then return nil, message, code end
  return self
end

-- Looks for changes and returns the current value and its generation.
function Handle:get()
  if changed(self.watched) then attempt(self) end
  return self.value, self.generation
end

function Handle:failure() return self.failure_ end
function Handle:hash() return self.hash_ end

-- The scripts of the current generation, for the run store: { {path, text, hash}, ... }.
function Handle:sources()
  local list = {}
  for i, file in ipairs(self.files) do
    list[i] = { path = file.path, text = file.text, hash = native.hash(file.text) }
  end
  return list
end

function Handle:on_change(fn) self.listeners[#self.listeners + 1] = fn end

-- Plain data that outlives a reload and is saved with checkpoints.
function reload.state(name, options)
  local box = boxes[name]
  if box and box.version ~= options.version then
    if not options.migrate then
      error(("state '%s' has version %s, the script wants %s and has no migrate"):format(
        name, tostring(box.version), tostring(options.version)), 2)
    end
    box.data, box.version = options.migrate(box.data, box.version), options.version
  elseif not box then
    box = { version = options.version, data = options.init() }
    boxes[name] = box
  end
  return box.data
end

function reload.save_states() return boxes end
function reload.load_states(saved) boxes = saved or {} end

return reload
