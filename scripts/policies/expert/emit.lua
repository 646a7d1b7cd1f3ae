-- From a row program to C++. Fused: one loop for each pass over a row. In separate passes: one loop over the whole
-- tensor for each element-wise operator, through the output.

local expr = require "policies.expert.expr"

local emit = {}

local Writer = {}
Writer.__index = Writer

local START = { sum = "0", max = "-1e30f", min = "1e30f" }

function Writer:line(indent, text, may_fail)
  self.lines[#self.lines + 1] = { text = ("  "):rep(indent) .. text, may_fail = may_fail or false }
end

-- Where element-wise values live that a later pass needs: in the output while that is free, else in a row of scratch.
local function assign_slots(self, program)
  local last_use, users = {}, {}
  for _, item in ipairs(program.items) do
    for _, arg in ipairs(item.args) do
      last_use[arg] = math.max(last_use[arg] or 0, item.level)
      users[arg] = (users[arg] or 0) + 1
    end
  end
  self.last_use, self.users, self.slots, self.buffers = last_use, users, {}, 0
  local out_is_full = program.result.kind == "full"
  local busy = { [0] = out_is_full and -1 or math.huge }  -- slot -> pass until which it is taken
  for _, item in ipairs(program.items) do
    local last = last_use[item.name] or 0
    if item.kind == "full" and item ~= program.result and last > item.level then
      local slot = 0
      while busy[slot] and busy[slot] > item.level or (slot == 0 and program.result.level < last) do
        slot = slot + 1
      end
      busy[slot] = last
      self.slots[item.name] = slot
      self.buffers = math.max(self.buffers, slot)
    end
  end
end

local function slot_text(slot)
  return slot == 0 and "out[i]" or ("b%d[c]"):format(slot)
end

function Writer:operand(arg)
  if type(arg) == "number" then
    return expr.number(arg)
  end
  local kind = self.program.kinds[arg]
  if self.program.by_name[arg] then
    return self.alias[arg] or arg
  end
  return arg .. (kind == "full" and "[i]" or kind == "vec" and "[c]" or "[r]")
end

function Writer:expression(item)
  return expr.fill(item.template, item.attributes, function(i)
    return self:operand(item.args[i])
  end, self.namespace)
end

-- Whether a pass reads this value other than through a row's sum that is ready.
function Writer:used_in(item, level)
  for _, other in ipairs(self.program.items) do
    local reads = other.level == level and not self.passed[other.name] and (other.kind == "full" or other.how ~= "map")
    for _, arg in ipairs(reads and other.args or {}) do
      if arg == item.name then
        return true
      end
    end
  end
  return false
end

function Writer:load(indent, level)
  for _, item in ipairs(self.program.items) do
    local here = item.level < level or self.passed[item.name]
    if item.kind == "full" and here and self:used_in(item, level) then
      self:line(indent, ("float %s = %s;"):format(item.name, slot_text(self.slots[item.name] or 0)))
    end
  end
end

function Writer:element(indent, item, level)
  local slot = self.slots[item.name]
  local target = item == self.program.result and "out[i]" or slot and slot_text(slot)
  if target and not self:used_in(item, level) then
    self:line(indent, ("%s = %s;"):format(target, self:expression(item)), true)
    return
  end
  self:line(indent, ("float %s = %s;"):format(item.name, self:expression(item)), true)
  if target then
    self:line(indent, ("%s = %s;"):format(target, item.name))
  end
end

function Writer:accumulate(indent, item)
  local value = self:operand(item.args[1])
  if item.how == "sum" then
    self:line(indent, ("%s += %s;"):format(item.name, value), true)
  else
    self:line(indent, ("%s = %s %s %s ? %s : %s;"):format(item.name, value, item.how == "max" and ">" or "<", item.name,
      value, item.name), true)
  end
end

-- One pass over the elements of a row, or over all elements when there are no rows.
function Writer:pass(level)
  local maps, reductions = {}, {}
  for _, item in ipairs(self.program.items) do
    if item.level == level and not self.passed[item.name] then
      if item.how ~= "map" then
        reductions[#reductions + 1] = item
      elseif item.kind == "full" then
        maps[#maps + 1] = item
      end
    end
  end
  if #maps + #reductions == 0 then
    return
  end
  local indent = self.rows and 2 or 1
  for _, item in ipairs(reductions) do
    self:line(indent, ("float %s = %s;"):format(item.name, START[item.how]))
  end
  self:open_loop(indent)
  self:load(indent + 1, level)
  for _, item in ipairs(maps) do
    self:element(indent + 1, item, level)
  end
  for _, item in ipairs(reductions) do
    self:accumulate(indent + 1, item)
  end
  self:close_loop(indent)
end

function Writer:open_loop(indent)
  if not self.rows then
    self:line(indent, "for (long i = 0; i < n; i++) {")
    return
  end
  self:line(indent, "for (long c = 0; c < cols; c++) {")
  self.index_line = #self.lines + 1
  self:line(indent + 1, "long i = r * cols + c;")
end

-- A loop that only touches scratch needs no index of its own.
function Writer:close_loop(indent)
  if self.rows then
    local used = false
    for at = self.index_line + 1, #self.lines do
      used = used or self.lines[at].text:find("[i]", 1, true) ~= nil
    end
    if not used then
      table.remove(self.lines, self.index_line)
    end
  end
  self:line(indent, "}")
end

local function uses(item, name)
  local count = 0
  for _, arg in ipairs(item.args) do
    count = count + (arg == name and 1 or 0)
  end
  return count
end

-- The element-wise items before the first reduction, when each is used by the next one only: what can go through the
-- output pass by pass. Nil when a value is used twice.
local function chain_of(program, users)
  local chain = {}
  for _, item in ipairs(program.items) do
    if item.how ~= "map" or item.kind ~= "full" or item.level > 0 then
      break
    end
    local before = chain[#chain]
    if before and uses(item, before.name) ~= users[before.name] then
      return nil
    end
    chain[#chain + 1] = item
  end
  return chain
end

function Writer:separate_passes()
  local program = self.program
  local chain = program.result.kind == "full" and chain_of(program, self.users)
  if not chain or #chain < 2 then
    return
  end
  local last = chain[#chain]
  if last ~= program.result and (self.slots[last.name] or 0) ~= 0 then
    return
  end
  for index, item in ipairs(chain) do
    local text = self:expression(item):gsub("%[c%]", "[i %% cols]"):gsub("%[r%]", "[i / cols]")
    self:line(1, ("for (long i = 0; i < %s; i++) out[i] = %s;  // %s"):format(self.rows and "rows * cols" or "n", text,
      item.name), true)
    self.passed[item.name] = true
    self.alias[item.name] = index < #chain and "out[i]" or nil
  end
end

function Writer:body()
  local program, levels = self.program, 0
  local left = false
  for _, item in ipairs(program.items) do
    levels = math.max(levels, item.level)
    left = left or not self.passed[item.name]
  end
  if not left then
    return
  end
  if self.rows then
    self:line(1, "for (long r = 0; r < rows; r++) {")
  end
  for level = 0, levels do
    for _, item in ipairs(program.items) do
      if item.kind == "row" and item.how == "map" and item.level == level then
        local target = item == program.result and "out[r]" or "float " .. item.name
        self:line(2, ("%s = %s;"):format(target, self:expression(item)), true)
      end
    end
    self:pass(level)
  end
  if program.result.kind == "row" and program.result.how ~= "map" then
    self:line(2, ("out[r] = %s;"):format(program.result.name))
  end
  if self.rows then
    self:line(1, "}")
  end
end

local function signature(program, rows, buffers)
  local arguments = {}
  for _, input in ipairs(program.inputs) do
    arguments[#arguments + 1] = "const float* " .. input.name
  end
  arguments[#arguments + 1] = "float* out"
  arguments[#arguments + 1] = rows and "long rows, long cols" or "long n"
  if buffers > 0 then
    arguments[#arguments + 1] = "khost::workspace w"
  end
  return ('extern "C" int k(%s) {'):format(table.concat(arguments, ", "))
end

--- The lines of the kernel file; `may_fail` marks the statements that carry the computation.
---@param program Program
---@param form {fused: boolean, fast: boolean}
---@return {text: string, may_fail: boolean}[]
function emit.lines(program, form)
  local rows = false
  for _, item in ipairs(program.items) do
    rows = rows or item.kind == "row"
  end
  for _, input in ipairs(program.inputs) do
    rows = rows or input.kind ~= "full"
  end
  local self = setmetatable({ program = program, rows = rows, lines = {}, passed = {}, alias = {},
    namespace = form.fast and "fast::" or "std::" }, Writer)
  assign_slots(self, program)
  if form.fast then
    self:line(0, '#include "fast.h"')
  else
    self:line(0, "#include <cmath>")
    self:line(0, '#include "khost.h"')
  end
  self:line(0, signature(program, rows, self.buffers))
  for index = 1, self.buffers do
    self:line(1, index == 1 and "float* b1 = (float*)w.data;" or ("float* b%d = b%d + cols;"):format(index, index - 1))
  end
  if not form.fused then
    self:separate_passes()
  end
  self:body()
  self:line(1, "return 0;")
  self:line(0, "}")
  self:line(0, "KHOST_EXPORT(k)")
  return self.lines
end

return emit
