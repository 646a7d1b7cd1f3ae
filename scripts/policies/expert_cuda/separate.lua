-- One launch an operator: every value of the program goes to memory. Whole tensors go to the output while that is
-- free and else to the workspace, one value a row always to the workspace. The slow variant.

local text = require "policies.expert_cuda.text"

local separate = {}

local WORKSPACE_BYTES = 64 * 1024 * 1024  -- what a launcher gets that asks for no other size

local REDUCE = [[
__global__ void %s_kernel(const float* from, float* to, int64_t cols) {
  __shared__ float part[256];
  float value = %s;
  for (int64_t c = threadIdx.x; c < cols; c += 256) {
    float next = from[blockIdx.x * cols + c];
    value = %s;
  }
  part[threadIdx.x] = value;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] = %s;
    __syncthreads();
  }
  if (threadIdx.x == 0) to[blockIdx.x] = part[0];
}

]]

local START = { sum = "0", max = "-INFINITY", min = "INFINITY" }
local JOIN = { sum = "%s + %s", max = "fmaxf(%s, %s)", min = "fminf(%s, %s)" }

-- Where each value lives: "out", or the number of a buffer of whole tensors ("b1") or of rows ("q1").
local function places(program)
  local last = {}
  for index, item in ipairs(program.items) do
    for _, arg in ipairs(text.operands(item)) do
      last[arg] = index
    end
  end
  local found, busy, count = {}, { full = {}, row = {} }, { full = 0, row = 0 }
  for index, item in ipairs(program.items) do
    local kind = item.kind
    local slots = busy[kind]
    local slot = kind == program.result.kind and 0 or 1
    -- An element-wise kernel may write where it reads for the last time, since each thread touches one element.
    while slots[slot] and slots[slot] > index do
      slot = slot + 1
    end
    if item == program.result then
      slot = 0
    end
    slots[slot] = last[item.name] or index
    count[kind] = math.max(count[kind], slot)
    found[item.name] = slot == 0 and "out" or (kind == "full" and "b" or "q") .. slot
  end
  return found, count
end

-- The kernel of one map, and the text of its launch.
local function map_kernel(lines, program, item, found)
  local rows, wide = item.kind == "row", false
  local pointers, arguments, seen = {}, {}, {}
  for _, arg in ipairs(text.operands(item)) do
    if type(arg) == "string" and not seen[arg] then
      seen[arg] = true
      pointers[#pointers + 1] = { name = arg }
      arguments[#arguments + 1] = found[arg] or arg
    end
  end
  local expression = text.expression(item, function(name)
    local kind = program.kinds[name]
    wide = wide or (not rows and kind ~= "full")
    return name .. ((rows or kind == "full") and "[i]" or kind == "vec" and "[i % cols]" or "[i / cols]")
  end)
  wide = wide or expression:find("cols", 1, true) ~= nil
  lines:add(("__global__ void %s_kernel(%s, float* to, int64_t count%s) {"):format(item.name, text.parameters(pointers),
    wide and ", int64_t cols" or ""))
  lines:add("  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;")
  lines:add("  if (i < count) {")
  lines:add(("    to[i] = %s;"):format(expression), true)
  lines:add("  }")
  lines:add("}")
  lines:add("")
  local count = rows and "rows" or "n"
  return ("%s_kernel<<<(%s + 255) / 256, 256, 0, khost::cuda(stream)>>>(%s, %s, %s%s);"):format(item.name, count,
    table.concat(arguments, ", "), found[item.name], count, wide and ", cols" or "")
end

local function reduce_kernel(lines, item, found)
  local join = JOIN[item.how]
  lines:block(REDUCE:format(item.name, START[item.how], join:format("value", "next"),
    join:format("part[threadIdx.x]", "part[threadIdx.x + s]")))
  return ("%s_kernel<<<rows, 256, 0, khost::cuda(stream)>>>(%s, %s, cols);"):format(item.name,
    found[item.args[1]] or item.args[1], found[item.name])
end

--- The lines of the file.
---@param program Program
---@param size integer[]   of a whole tensor
---@return table|nil lines, string? message
function separate.lines(program, size)
  local found, count = places(program)
  local elements, rows = text.elements(size), text.has_rows(program)
  local row_count = elements / size[#size]
  if 4 * (count.full * elements + count.row * row_count) > WORKSPACE_BYTES then
    return nil, "values that do not fit into the workspace"
  end
  local lines, launches = text.lines(), {}
  lines:add('#include "khost.h"')
  lines:add("")
  for _, item in ipairs(program.items) do
    launches[#launches + 1] = item.how == "map" and map_kernel(lines, program, item, found)
      or reduce_kernel(lines, item, found)
  end
  local uses = count.full + count.row > 0
  local sizes = rows and "int64_t rows, int64_t cols" or table.concat(launches):find("cols", 1, true) and
    "int64_t n, int64_t cols" or "int64_t n"
  lines:add(("extern \"C\" int run(%s, float* out, %s, %skhost::stream* stream) {"):format(
    text.parameters(program.inputs), sizes, uses and "khost::workspace w, " or ""))
  local before
  for _, kind in ipairs { { "full", "b", "rows * cols" }, { "row", "q", "rows" } } do
    for slot = 1, count[kind[1]] do
      local name = kind[2] .. slot
      lines:add(("  float* %s = %s;"):format(name, before or "(float*)w.data"))
      before = ("%s + %s"):format(name, rows and kind[3] or "n")
    end
  end
  if rows then
    lines:add("  int64_t n = rows * cols;")
  end
  for _, launch in ipairs(launches) do
    lines:add("  " .. launch)
  end
  lines:add("  return cudaGetLastError();")
  lines:add("}")
  lines:add("KHOST_EXPORT(run)")
  return lines
end

return separate
