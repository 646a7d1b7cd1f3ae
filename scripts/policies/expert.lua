-- Writes C++ kernels by rule from the traced graph of a task: element-wise chains, broadcasts along the last
-- dimension, row reductions, softmax and layer norm. It is the teacher of small base models, a row in every table and
-- the load of benchmarks. Three variants of the same answer:
--   slow    one pass over memory for each operator
--   plain   one fused pass, functions of the C++ library
--   fast    rows in cache-sized blocks, vectorisable exp and tanh of our own, streaming stores
local expert = {}

-- Every operator as a C++ expression of its operands; %1 and %2 stand for them.
local EXPRESSIONS = {
  relu = "%1 > 0 ? %1 : 0.0f", abs = "std::fabs(%1)", neg = "-%1", square = "%1 * %1",
  add = "%1 + %2", sub = "%1 - %2", mul = "%1 * %2", div = "%1 / %2",
  maximum = "std::max(%1, %2)", minimum = "std::min(%1, %2)",
  sigmoid = "1.0f / (1.0f + EXP(-%1))", tanh = "TANH(%1)", silu = "%1 / (1.0f + EXP(-%1))",
  exp = "EXP(%1)", sqrt = "std::sqrt(%1)", rsqrt = "1.0f / std::sqrt(%1)", reciprocal = "1.0f / %1",
  softplus = "%1 > 20.0f ? %1 : LOG1P(EXP(%1))",
}

-- Operators whose expression depends on attributes.
local function special(node)
  local a = node.attributes
  if node.op == "clamp" then
    local low, high = a.min or node.inputs[2], a.max or node.inputs[3]
    return ("std::min(std::max(%%1, %sf), %sf)"):format(expert.literal(low), expert.literal(high))
  elseif node.op == "leaky_relu" then
    return ("%%1 > 0 ? %%1 : %%1 * %sf"):format(expert.literal(a.negative_slope or node.inputs[2] or 0.01))
  elseif node.op == "elu" then
    return "%1 > 0 ? %1 : EXP(%1) - 1.0f"
  elseif node.op == "gelu" then
    if a.approximate == "tanh" then
      return "0.5f * %1 * (1.0f + TANH(0.7978845608f * (%1 + 0.044715f * %1 * %1 * %1)))"
    end
    return "0.5f * %1 * (1.0f + std::erf(%1 * 0.7071067812f))"
  elseif node.op == "pow" and (node.inputs[2] == 2 or a.exponent == 2) then
    return "%1 * %1"
  end
  return EXPRESSIONS[node.op]
end

-- Row operators: how a row `%1` of `cols` values becomes a scalar or a row `out`.
local REDUCTIONS = { sum = true, mean = true, amax = true }

function expert.literal(value)
  local text = ("%.9g"):format(value)
  return text:find("[%.eE]") and text or text .. ".0"
end

local PRELUDE = [[
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "khost.h"
]]

-- Accurate to about 2e-7 relative; without branches and calls, so that the compiler turns it into vectors.
local FAST_MATH = [[
#include <immintrin.h>

namespace {

inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float n = std::nearbyint(x * 1.442695041f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}

inline float fast_tanh(float x) {
  const float a = std::fabs(x);
  const float e = fast_exp(-2.0f * a);
  // Near zero the difference cancels; the series does not.
  const float s = x * x;
  const float small = x * (1.0f + s * (-0.33333333f + s * (0.13333333f + s * (-0.053968254f + s * 0.021869489f))));
  const float large = std::copysign((1.0f - e) / (1.0f + e), x);
  return a < 0.3f ? small : large;
}

inline float fast_log1p(float x) {
  return std::log1p(x);
}

// Past the caches: the output is not read again, and reading its lines first would cost a third of the traffic.
inline void stream(float* to, const float* from, std::int64_t n) {
  std::int64_t i = 0;
  for (; i < n && (reinterpret_cast<std::uintptr_t>(to + i) & 31) != 0; i++) to[i] = from[i];
  for (; i + 8 <= n; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
  for (; i < n; i++) to[i] = from[i];
}

}  // namespace
]]

local function functions(text, fast)
  local names = fast and { EXP = "fast_exp", TANH = "fast_tanh", LOG1P = "fast_log1p" }
    or { EXP = "std::exp", TANH = "std::tanh", LOG1P = "std::log1p" }
  return (text:gsub("%f[%u](%u[%u%d]+)%(", function(name) return (names[name] or name) .. "(" end))
end

local function refuse(node, why) return nil, ("%s: %s"):format(node.op, why), "unsupported" end

-- What kind of value a name is: "element" (rows × cols), "vector" (cols), "row" (one per row).
local function classify(graph)
  local first = graph.inputs[1]
  local size = first.size
  local cols = size[#size]
  local total = 1
  for _, n in ipairs(size) do total = total * n end
  local kinds = {}
  for _, input in ipairs(graph.inputs) do
    local count = 1
    for _, n in ipairs(input.size) do count = count * n end
    if input.dtype ~= "float32" then return nil, ("input %s is %s"):format(input.name, input.dtype) end
    if count == total then
      kinds[input.name] = "element"
    elseif #input.size == 1 and count == cols then
      kinds[input.name] = "vector"
    else
      return nil, ("input %s has a shape of its own"):format(input.name)
    end
  end
  return { kinds = kinds, cols = cols, total = total, rank = #size }
end

local function last_dimension(node, rank)
  local dim = node.attributes.dim or node.inputs[2]
  if type(dim) == "table" then dim = #dim == 1 and dim[1] or nil end
  return dim == -1 or dim == rank - 1
end

-- Steps of one row: { kind = "map", nodes }, { kind = "reduce", node }, { kind = "softmax" | "layer_norm", node }.
local function steps_of(graph, shape)
  local steps, kinds = {}, shape.kinds
  for _, node in ipairs(graph.nodes) do
    local template = special(node)
    if template then
      local kind = "row"
      for _, name in ipairs(node.inputs) do
        local of = type(name) == "string" and kinds[name]
        if of == "element" or of == "vector" then kind = "element" end
      end
      if kind ~= "element" then return refuse(node, "on a value for each row") end
      kinds[node.name] = kind
      if #steps == 0 or steps[#steps].kind ~= "map" then steps[#steps + 1] = { kind = "map", nodes = {} } end
      local nodes = steps[#steps].nodes
      nodes[#nodes + 1] = { node = node, template = template }
    elseif REDUCTIONS[node.op] then
      if not last_dimension(node, shape.rank) then return refuse(node, "not over the last dimension") end
      kinds[node.name] = "row"
      steps[#steps + 1] = { kind = "reduce", node = node }
    elseif node.op == "softmax" then
      if not last_dimension(node, shape.rank) then return refuse(node, "not over the last dimension") end
      kinds[node.name] = "element"
      steps[#steps + 1] = { kind = "softmax", node = node }
    elseif node.op == "layer_norm" and #node.inputs == 1 then
      kinds[node.name] = "element"
      steps[#steps + 1] = { kind = "layer_norm", node = node }
    else
      return refuse(node, "the expert has no rule for it")
    end
  end
  return steps
end

local function substitute(template, operands, fast)
  local text = template:gsub("%%(%d)", function(i) return operands[tonumber(i)] end)
  return functions(text, fast)
end

-- One statement for each operator of a map, over column c.
local function map_lines(step, kinds, defined, fast)
  local lines, inside = {}, {}
  for _, item in ipairs(step.nodes) do
    local operands = {}
    for i, name in ipairs(item.node.inputs) do
      if type(name) ~= "string" then
        operands[i] = expert.literal(name) .. "f"
      elseif inside[name] then
        operands[i] = name
      elseif defined[name] then
        operands[i] = name .. "_[c]"
      elseif kinds[name] == "vector" then
        operands[i] = name .. "[c]"
      else
        operands[i] = name .. "[r * cols + c]"
      end
    end
    inside[item.node.name] = true
    lines[#lines + 1] = ("const float %s = %s;"):format(item.node.name, substitute(item.template, operands, fast))
  end
  return lines, inside
end

local REDUCE = {
  sum = { "0.0f", "acc += %s;", "acc" },
  mean = { "0.0f", "acc += %s;", "acc / static_cast<float>(cols)" },
  amax = { "%s", "acc = std::max(acc, %s);", "acc" },
}

local function value_of(name, kinds, defined)
  if defined[name] then return name .. "_[c]" end
  return kinds[name] == "vector" and name .. "[c]" or name .. "[r * cols + c]"
end

-- The body for one row. Values that a later step reads live in row buffers `name_`.
local function row_body(graph, steps, shape, fast)
  local out, defined, body, buffers = graph.output[1], {}, {}, {}
  local function emit(text, ...) body[#body + 1] = "    " .. text:format(...) end
  local function target(name)
    if name == out and not fast then return "out[r * cols + c]" end
    defined[name] = true
    buffers[#buffers + 1] = name .. "_"
    return name .. "_[c]"
  end
  for _, step in ipairs(steps) do
    if step.kind == "map" then
      local lines = map_lines(step, shape.kinds, defined, fast)
      emit("for (int64_t c = 0; c < cols; c++) {")
      for _, line in ipairs(lines) do emit("  %s", (line:gsub("%%", "%%%%"))) end
      local last = step.nodes[#step.nodes].node.name
      emit("  %s = %s;", target(last), last)
      emit("}")
    else
      local node = step.node
      local value = value_of(node.inputs[1], shape.kinds, defined)
      if step.kind == "reduce" then
        local rule = REDUCE[node.op]
        emit("{")
        emit("  float acc = %s;", (rule[1]:gsub("%%s", (value:gsub("%[c%]", "[0]"):gsub(" %+ c%]", "]")))))
        if fast or node.op ~= "amax" then emit("  #pragma omp simd reduction(%s : acc)", node.op == "amax" and "max" or "+") end
        emit("  for (int64_t c = 0; c < cols; c++) { %s }", (rule[2]:gsub("%%s", value)))
        emit("  out[r] = %s;", rule[3])
        emit("}")
      elseif step.kind == "softmax" then
        emit("{")
        emit("  float top = %s;", (value:gsub("%[c%]", "[0]"):gsub(" %+ c%]", "]")))
        emit("  #pragma omp simd reduction(max : top)")
        emit("  for (int64_t c = 0; c < cols; c++) top = std::max(top, %s);", value)
        emit("  float sum = 0.0f;")
        local to = target(node.name)
        emit("  #pragma omp simd reduction(+ : sum)")
        emit("  for (int64_t c = 0; c < cols; c++) { const float e = %s(%s - top); %s = e; sum += e; }",
          fast and "fast_exp" or "std::exp", value, to)
        emit("  const float scale = 1.0f / sum;")
        emit("  for (int64_t c = 0; c < cols; c++) %s *= scale;", to)
        emit("}")
      else
        emit("{")
        emit("  float sum = 0.0f, squares = 0.0f;")
        emit("  #pragma omp simd reduction(+ : sum)")
        emit("  for (int64_t c = 0; c < cols; c++) sum += %s;", value)
        emit("  const float mean = sum / static_cast<float>(cols);")
        emit("  #pragma omp simd reduction(+ : squares)")
        emit("  for (int64_t c = 0; c < cols; c++) squares += (%s - mean) * (%s - mean);", value, value)
        emit("  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + %sf);",
          expert.literal(node.attributes.eps or 1e-5))
        emit("  for (int64_t c = 0; c < cols; c++) %s = (%s - mean) * scale;", target(node.name), value)
        emit("}")
      end
    end
  end
  if fast and shape.kinds[out] == "element" then emit("stream(out + r * cols, %s_, cols);", out) end
  return body, buffers
end

-- graph: the judge's `trace`. Returns { ["kernels/kernel.cpp"] = text }, or nil, why, "unsupported".
function expert.write(graph, variant)
  if #graph.output ~= 1 then return nil, "several outputs", "unsupported" end
  local shape, why = classify(graph)
  if not shape then return nil, why, "unsupported" end
  local steps, reason, code = steps_of(graph, shape)
  if not steps then return nil, reason, code end
  if #steps == 0 then return nil, "nothing is computed", "unsupported" end
  local last = steps[#steps]
  for i, step in ipairs(steps) do
    if step.kind == "reduce" and i < #steps then return nil, "work behind a reduction", "unsupported" end
  end
  if last.kind ~= "map" and last.node.name ~= graph.output[1] then return nil, "unused work", "unsupported" end
  if variant == "slow" then
    -- One step an operator: what was fused falls apart, each value goes through memory.
    local apart = {}
    for _, step in ipairs(steps) do
      if step.kind == "map" then
        for _, item in ipairs(step.nodes) do apart[#apart + 1] = { kind = "map", nodes = { item } } end
      else
        apart[#apart + 1] = step
      end
    end
    steps = apart
  end
  local fast = variant == "fast"
  local body, buffers = row_body(graph, steps, shape, fast)
  local arguments = {}
  for _, input in ipairs(graph.inputs) do arguments[#arguments + 1] = "const float* " .. input.name end
  arguments[#arguments + 1] = "float* out, int64_t rows, int64_t cols, khost::workspace scratch"
  local lines = { PRELUDE }
  if fast then lines[#lines + 1] = FAST_MATH end
  lines[#lines + 1] = ('extern "C" int kernel(%s) {'):format(table.concat(arguments, ", "))
  lines[#lines + 1] = "  float* buffer = static_cast<float*>(scratch.data);"
  lines[#lines + 1] = "  (void)buffer;"
  for i, name in ipairs(buffers) do
    lines[#lines + 1] = ("  float* %s = buffer + %d * ((cols + 15) / 16 * 16);"):format(name, i - 1)
  end
  lines[#lines + 1] = "  for (int64_t r = 0; r < rows; r++) {"
  for _, line in ipairs(body) do lines[#lines + 1] = line end
  lines[#lines + 1] = "  }"
  lines[#lines + 1] = "  return 0;"
  lines[#lines + 1] = "}"
  lines[#lines + 1] = "KHOST_EXPORT(kernel)"
  return { ["kernels/kernel.cpp"] = table.concat(lines, "\n") .. "\n" }
end

expert.variants = { "slow", "plain", "fast" }

return expert
