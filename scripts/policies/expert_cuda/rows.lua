-- Row programs as one kernel with a block a row: one pass over the row for each reduction that others wait for, and a
-- last one for the result. What a later pass needs again it computes again from the inputs, which the caches then
-- hold.

local chain = require "policies.expert_cuda.chain"
local text = require "policies.expert_cuda.text"

local rows = {}

local START = { sum = "0", max = "-INFINITY", min = "INFINITY" }
local JOIN = { sum = "%s + %s", max = "fmaxf(%s, %s)", min = "fminf(%s, %s)" }

local TREE = [[
__device__ float row_%s(float value) {
  __shared__ float part[256];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] = %s;
    __syncthreads();
  }
  float all = part[0];
  __syncthreads();
  return all;
}

]]

local WARPS = [[
__device__ float row_%s(float value) {
  __shared__ float part[8];
  for (int s = 16; s > 0; s /= 2) value = %s;
  if (threadIdx.x %% 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  float all = part[0];
  for (int warp = 1; warp < 8; warp++) all = %s;
  __syncthreads();
  return all;
}

]]

local function helpers(lines, program, warps)
  local done = {}
  for _, item in ipairs(program.items) do
    local how = item.how
    if how ~= "map" and not done[how] then
      done[how] = true
      local join = JOIN[how]
      if warps then
        lines:block(WARPS:format(how, join:format("value", "__shfl_xor_sync(~0u, value, s)"),
          join:format("all", "part[warp]")))
      else
        lines:block(TREE:format(how, join:format("part[threadIdx.x]", "part[threadIdx.x + s]")))
      end
    end
  end
end

local function levels(program)
  local last = 0
  for _, item in ipairs(program.items) do
    last = math.max(last, item.level)
  end
  return last
end

-- Which row values the result or a reduction needs; others are not computed.
local function row_maps(program, level)
  local list = {}
  for _, item in ipairs(program.items) do
    if item.kind == "row" and item.how == "map" and item.level == level then
      list[#list + 1] = item
    end
  end
  return list
end

local function reductions(program, level)
  local list = {}
  for _, item in ipairs(program.items) do
    if item.how ~= "map" and item.level == level then
      list[#list + 1] = item
    end
  end
  return list
end

local function row_operand(program)
  return function(name)
    return program.by_name[name] and name or name .. "[r]"
  end
end

-- Everything between the kernel's braces, with the two kinds of pass given by the variant.
local function body(lines, program, pass)
  lines:add("  int64_t r = blockIdx.x;")
  for level = 0, levels(program) do
    for _, item in ipairs(row_maps(program, level)) do
      lines:add(("  float %s = %s;"):format(item.name, text.expression(item, row_operand(program))), true)
    end
    local list = reductions(program, level)
    if #list > 0 then
      for _, item in ipairs(list) do
        lines:add(("  float %s = %s;"):format(item.name, START[item.how]))
      end
      pass(list)
      for _, item in ipairs(list) do
        lines:add(("  %s = row_%s(%s);"):format(item.name, item.how, item.name))
      end
    end
  end
  if program.result.kind == "full" then
    pass(nil)
  else
    lines:add(("  if (threadIdx.x == 0) out[r] = %s;"):format(program.result.name))
  end
end

local function launcher(lines, program, pointer, arguments)
  lines:add(("extern \"C\" int run(%s, float* out, int64_t rows, int64_t cols, khost::stream* stream) {"):format(
    text.parameters(program.inputs)))
  lines:add(("  run_kernel<<<rows, 256, 0, khost::cuda(stream)>>>(%s, %s, cols);"):format(arguments, pointer))
  lines:add("  return cudaGetLastError();")
  lines:add("}")
  lines:add("KHOST_EXPORT(run)")
end

--- One element a thread and step; sums of a block through a tree in shared memory.
---@param program Program
---@return table lines
function rows.scalar(program)
  local lines = text.lines()
  local function operand(name)
    local kind = program.kinds[name]
    if program.by_name[name] then
      return name
    end
    return name .. (kind == "full" and "[i]" or kind == "vec" and "[c]" or "[r]")
  end
  lines:add('#include "khost.h"')
  lines:add("")
  helpers(lines, program, false)
  lines:add(("__global__ void run_kernel(%s, float* out, int64_t cols) {"):format(text.parameters(program.inputs)))
  body(lines, program, function(list)
    lines:add("  for (int64_t c = threadIdx.x; c < cols; c += 256) {")
    lines:add("    int64_t i = r * cols + c;")
    local done = {}
    for _, target in ipairs(list or { program.result }) do
      local value = list and target.args[1] or target.name
      for _, item in ipairs((text.closure(program, value))) do
        if not done[item] then
          done[item] = true
          lines:add(("    %s = %s;"):format(not list and item == target and "out[i]" or "float " .. item.name,
            text.expression(item, operand)), true)
        end
      end
      if list then
        lines:add(("    %s = %s;"):format(target.name, JOIN[target.how]:format(target.name, operand(value))), true)
      end
    end
    lines:add("  }")
  end)
  lines:add("}")
  lines:add("")
  launcher(lines, program, "out", text.names(program.inputs))
  return lines
end

--- Four elements a thread and step, 16-byte loads and stores, sums of a block by shuffles within warps. The last
--- extent must be a multiple of four.
---@param program Program
---@return table lines
function rows.vector(program)
  local lines, full = text.lines(), program.result.kind == "full"
  lines:add('#include "khost.h"')
  lines:add("")
  helpers(lines, program, true)
  local parameters = {}
  for _, item in ipairs(program.items) do
    if item.how ~= "map" then
      parameters[item] = chain.element(lines, program, item.name .. "_of", item.args[1])
    end
  end
  if full then
    parameters[program.result] = chain.element(lines, program, "result_of", program.result.name)
  end
  local vectors, arguments = {}, {}
  for index, input in ipairs(program.inputs) do
    local scalar = input.kind == "row"
    vectors[index] = (scalar and "const float* " or "const float4* ") .. input.name
    arguments[index] = scalar and input.name or ("reinterpret_cast<const float4*>(%s)"):format(input.name)
  end
  lines:add(("__global__ void run_kernel(%s, %s out, int64_t cols) {"):format(table.concat(vectors, ", "),
    full and "float4*" or "float*"))
  local function lane(name)
    local kind = program.kinds[name]
    if program.by_name[name] then
      return name
    end
    return kind == "row" and name .. "[r]" or name .. "4.%s"
  end
  body(lines, program, function(list)
    lines:add("  for (int64_t c = threadIdx.x; c < cols / 4; c += 256) {")
    lines:add("    int64_t i = r * (cols / 4) + c;")
    local loaded = {}
    for _, target in ipairs(list or { program.result }) do
      for _, name in ipairs(parameters[target]) do
        local kind = program.kinds[name]
        if not program.by_name[name] and kind ~= "row" and not loaded[name] then
          loaded[name] = true
          lines:add(("    float4 %s4 = %s[%s];"):format(name, name, kind == "full" and "i" or "c"))
        end
      end
    end
    for _, target in ipairs(list or { program.result }) do
      local calls = chain.lanes(list and target.name .. "_of" or "result_of", parameters[target], lane)
      if list then
        local join = JOIN[target.how]
        local pairs_joined = join:format(join:format(calls[1], calls[2]), join:format(calls[3], calls[4]))
        lines:add(("    %s = %s;"):format(target.name, join:format(target.name, pairs_joined)))
      else
        lines:add(("    out[i] = make_float4(%s);"):format(table.concat(calls, ", ")))
      end
    end
    lines:add("  }")
  end)
  lines:add("}")
  lines:add("")
  launcher(lines, program, full and "reinterpret_cast<float4*>(out)" or "out", table.concat(arguments, ", "))
  return lines
end

return rows
