-- Writes CUDA kernels by rule from a task's traced graph, one file in the direct form: the teacher of a supervised
-- start, a witness that a task can be solved, a row of every table. It knows element-wise operators, broadcasts of
-- the last dimension, row-wise maps, reductions of rows, softmax, log-softmax, layer norm, and RMS norm written out.
-- It is no compiler.

local chain = require "policies.expert_cuda.chain"
local faults = require "policies.expert.faults"
local program = require "policies.expert.program"
local rows = require "policies.expert_cuda.rows"
local separate = require "policies.expert_cuda.separate"
local text = require "policies.expert_cuda.text"

local expert = {}

-- From slow to fast: one launch an operator; one kernel, one element a thread; one kernel, four elements a thread and
-- sums by warps.
expert.ORDER = { "separate", "scalar", "vector" }

expert.PATH = "kernels/k.cu"

local function vector_fits(graph)
  local size = graph.inputs[1].size
  return size[#size] % 4 == 0
end

local WRITERS = {}

function WRITERS.separate(built, graph)
  return separate.lines(built, graph.inputs[1].size)
end

function WRITERS.scalar(built)
  return (text.has_rows(built) and rows or chain).scalar(built)
end

function WRITERS.vector(built, graph)
  if not vector_fits(graph) then
    return nil, "a last dimension that is no multiple of four"
  end
  return (text.has_rows(built) and rows or chain).vector(built)
end

---@class (exact) CudaExpertOptions
---@field variant? "separate"|"scalar"|"vector"   "vector" when absent
---@field fault? string          the kind of one mistake to plant, a name of policies.expert.faults' KINDS, or "any"
---@field fault_rate? number     probability of a mistake in each statement; 0
---@field random? lib.Random     where mistakes come from; needed with a fault or a fault_rate

---@class (exact) CudaAnswer
---@field files table<string, string>
---@field variant string
---@field faults string[]        kinds of the mistakes that were planted
---@field syntax boolean         whether one of them cannot compile

-- Names that the writers use themselves.
local RESERVED = { all = true, count = true, cols4 = true, element = true, from = true, n4 = true, next = true,
  part = true, run = true, s = true, stream = true, to = true, value = true, warp = true }

local function reserved_input(graph)
  for _, input in ipairs(graph.inputs) do
    if RESERVED[input.name] then
      return input.name
    end
  end
end

-- Plants one mistake of a kind in a statement where it fits, drawn at random among those.
local function plant_one(texts, may_fail, kind, random)
  local places = {}
  for index in pairs(may_fail) do
    places[#places + 1] = index
  end
  table.sort(places)
  while #places > 0 do
    local index = table.remove(places, random:integer(1, #places))
    local wrong, name, broken = faults.plant(texts[index], random, kind ~= "any" and kind or nil)
    if wrong then
      texts[index] = wrong
      return { name }, broken
    end
  end
  return {}, false
end

--- The kernel for a traced graph.
---@param graph table
---@param options? CudaExpertOptions
---@return CudaAnswer|nil answer, string? message, string? code   "unsupported": no rule for the graph, no statement
---                                          in which the mistake fits, or values beyond the workspace
function expert.answer(graph, options)
  options = options or {}
  local variant = options.variant or "vector"
  local write = WRITERS[variant] or error("unknown variant " .. tostring(variant), 2)
  local built, message, code = program.build(graph)
  if not built then
    return nil, message, code
  end
  local taken = reserved_input(graph)
  if taken then
    return nil, "no rule for an input called " .. taken, "unsupported"
  end
  local lines, why = write(built, graph)
  if not lines then
    return nil, "no rule for " .. why, "unsupported"
  end
  local texts, may_fail, planted, syntax = {}, {}, {}, false
  for index, line in ipairs(lines) do
    texts[index] = line.text
    may_fail[index] = line.may_fail or nil
    if line.may_fail and options.fault_rate and options.random:number() < options.fault_rate then
      local wrong, kind, broken = faults.plant(line.text, options.random)
      if wrong then
        texts[index], planted[#planted + 1], syntax = wrong, kind, syntax or broken
      end
    end
  end
  if options.fault then
    planted, syntax = plant_one(texts, may_fail, options.fault, options.random)
    if #planted == 0 then
      return nil, ("no statement in which a mistake of the kind %s fits"):format(options.fault), "unsupported"
    end
  end
  for index, line in ipairs(texts) do
    texts[index] = text.cuda(line)
  end
  return { files = { [expert.PATH] = table.concat(texts, "\n") .. "\n" }, variant = variant, faults = planted,
    syntax = syntax }
end

return expert
