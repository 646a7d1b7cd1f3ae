-- Element-wise programs as one kernel: a thread an element, or a thread four elements with 16-byte loads and stores.

local text = require "policies.expert_cuda.text"

local chain = {}

local function facts(program)
  local wide = false
  for _, input in ipairs(program.inputs) do
    wide = wide or input.kind ~= "full"
  end
  return wide
end

local function launcher(lines, program, wide, body)
  lines:add(("extern \"C\" int run(%s, float* out, int64_t n, %skhost::stream* stream) {"):format(
    text.parameters(program.inputs), wide and "int64_t cols, " or ""))
  for _, line in ipairs(body) do
    lines:add("  " .. line)
  end
  lines:add("  return cudaGetLastError();")
  lines:add("}")
  lines:add("KHOST_EXPORT(run)")
end

--- One thread an element.
---@param program Program
---@return table lines
function chain.scalar(program)
  local lines, wide = text.lines(), facts(program)
  local function operand(name)
    local kind = program.kinds[name]
    if program.by_name[name] then
      return name
    end
    return name .. (kind == "full" and "[i]" or kind == "vec" and "[i % cols]" or "[i / cols]")
  end
  lines:add('#include "khost.h"')
  lines:add("")
  lines:add(("__global__ void run_kernel(%s, float* out, int64_t n%s) {"):format(text.parameters(program.inputs),
    wide and ", int64_t cols" or ""))
  lines:add("  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;")
  lines:add("  if (i < n) {")
  for _, item in ipairs((text.closure(program, program.result.name))) do
    lines:add(("    %s = %s;"):format(item == program.result and "out[i]" or "float " .. item.name,
      text.expression(item, operand)), true)
  end
  lines:add("  }")
  lines:add("}")
  lines:add("")
  launcher(lines, program, wide, {
    ("run_kernel<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(%s, out, n%s);"):format(text.names(program.inputs),
      wide and ", cols" or ""),
  })
  return lines
end

--- The element as a function of its own: what the four lanes of a vector call.
---@param lines table
---@param program Program
---@param name string         of the function
---@param value string        the value that it returns
---@return string[] parameters   names of the values that it reads
function chain.element(lines, program, name, value)
  local items, leaves = text.closure(program, value)
  local parameters = {}
  for index, leaf in ipairs(leaves) do
    parameters[index] = { name = leaf }
  end
  lines:add(("__device__ float %s(%s) {"):format(name, text.parameters(parameters, "float")))
  for _, item in ipairs(items) do
    local expression = text.expression(item, function(arg)
      return arg
    end)
    lines:add(item.name == value and ("  return %s;"):format(expression)
      or ("  float %s = %s;"):format(item.name, expression), true)
  end
  if #items == 0 then
    lines:add(("  return %s;"):format(value))
  end
  lines:add("}")
  lines:add("")
  return leaves
end

--- Calls of an element's function for the four lanes of a vector; `lane(name)` gives the text of a value of a lane,
--- in which %s stands for x, y, z or w.
---@param name string
---@param parameters string[]
---@param lane fun(name: string): string
---@return string[]
function chain.lanes(name, parameters, lane)
  local calls = {}
  for index, letter in ipairs { "x", "y", "z", "w" } do
    local arguments = {}
    for i, parameter in ipairs(parameters) do
      arguments[i] = (lane(parameter):gsub("%%s", letter))
    end
    calls[index] = ("%s(%s)"):format(name, table.concat(arguments, ", "))
  end
  return calls
end

--- Four elements a thread. The last extent must be a multiple of four.
---@param program Program
---@return table lines
function chain.vector(program)
  local lines, wide = text.lines(), facts(program)
  lines:add('#include "khost.h"')
  lines:add("")
  local parameters = chain.element(lines, program, "element", program.result.name)
  local vectors = {}
  for index, input in ipairs(program.inputs) do
    vectors[index] = (input.kind == "row" and "const float* " or "const float4* ") .. input.name
  end
  lines:add(("__global__ void run_kernel(%s, float4* out, int64_t n4%s) {"):format(table.concat(vectors, ", "),
    wide and ", int64_t cols4" or ""))
  lines:add("  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;")
  lines:add("  if (i < n4) {")
  local arguments = {}
  for index, input in ipairs(program.inputs) do
    local kind = input.kind
    lines:add(("    %s %s4 = %s[%s];"):format(kind == "row" and "float" or "float4", input.name, input.name,
      kind == "full" and "i" or kind == "vec" and "i % cols4" or "i / cols4"))
    arguments[index] = kind == "row" and input.name or ("reinterpret_cast<const float4*>(%s)"):format(input.name)
  end
  local calls = chain.lanes("element", parameters, function(name)
    return program.kinds[name] == "row" and name .. "4" or name .. "4.%s"
  end)
  lines:add(("    out[i] = make_float4(%s);"):format(table.concat(calls, ", ")))
  lines:add("  }")
  lines:add("}")
  lines:add("")
  launcher(lines, program, wide, {
    "int64_t n4 = n / 4;",
    "run_kernel<<<(n4 + 255) / 256, 256, 0, khost::cuda(stream)>>>(",
    ("    %s, reinterpret_cast<float4*>(out), n4%s);"):format(table.concat(arguments, ", "),
      wide and ", cols / 4" or ""),
  })
  return lines
end

return chain
