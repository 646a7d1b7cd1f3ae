-- policies.expert_cuda: CUDA kernels by rule, their variants, mistakes on purpose, and what nvcc says of them.
local compose = require "synthesis.compose"
local expert = require "policies.expert_cuda"
local faults = require "policies.expert.faults"
local fs = require "khost.fs"
local kit = require "tests.lua.toolkit"
local random = require "lib.random"
local t = require "tests.lua.harness"

local function graph(nodes, more)
  local inputs = { { name = "x", kind = "input", size = { 4, 8 }, dtype = "float32" } }
  for _, name in ipairs(more or {}) do
    inputs[#inputs + 1] = { name = name, kind = "state", size = { 8 }, dtype = "float32" }
  end
  for i, node in ipairs(nodes) do
    node.name, node.size, node.dtype = "t" .. i, node.size or { 4, 8 }, "float32"
    node.attributes = node.attributes or {}
  end
  return { inputs = inputs, nodes = nodes, output = { "t" .. #nodes } }
end

local function text(g, variant)
  return assert(expert.answer(g, { variant = variant })).files[expert.PATH]
end

local function has(got, part)
  t.is_true(got:find(part, 1, true) ~= nil, ("%q is missing in:\n%s"):format(part, got))
end

-- One graph for each family that the expert promises.
local FAMILIES = {
  chain = function() return graph { { op = "tanh", inputs = { "x" } }, { op = "mul", inputs = { "x", "t1" } } } end,
  bias = function()
    return graph({ { op = "add", inputs = { "x", "bias" } }, { op = "gelu", inputs = { "t1" } } }, { "bias" })
  end,
  row_map = function()
    return graph { { op = "min", inputs = { "x" }, size = { 4, 1 }, attributes = { dim = 1, keepdim = true } },
      { op = "sub", inputs = { "x", "t1" } } }
  end,
  reduce = function()
    return graph { { op = "mean", inputs = { "x" }, size = { 4 }, attributes = { dim = { 1 } } } }
  end,
  length = function()
    return graph { { op = "linalg_vector_norm", inputs = { "x" }, size = { 4, 1 },
      attributes = { ord = 2, dim = { 1 }, keepdim = true } }, { op = "div", inputs = { "x", "t1" } } }
  end,
  softmax = function() return graph { { op = "softmax", inputs = { "x" }, attributes = { dim = -1 } } } end,
  log_softmax = function() return graph { { op = "log_softmax", inputs = { "x" }, attributes = { dim = 1 } } } end,
  layer_norm = function()
    return graph({ { op = "layer_norm", inputs = { "x", "weight", "bias" },
      attributes = { normalized_shape = { 8 }, eps = 1e-5 } }, { op = "relu", inputs = { "t1" } } },
      { "weight", "bias" })
  end,
  rms_norm = function()
    return graph({ { op = "mul", inputs = { "x", "x" } },
      { op = "mean", inputs = { "t1" }, size = { 4, 1 }, attributes = { dim = { 1 }, keepdim = true } },
      { op = "add", inputs = { "t2", 1e-6 }, size = { 4, 1 } }, { op = "rsqrt", inputs = { "t3" }, size = { 4, 1 } },
      { op = "mul", inputs = { "x", "t4" } }, { op = "mul", inputs = { "t5", "gain" } } }, { "gain" })
  end,
}

local spec = {}

function spec.a_chain_becomes_one_kernel()
  local got = text(graph { { op = "relu", inputs = { "x" } }, { op = "add", inputs = { "t1", -0.5 } } }, "scalar")
  t.expect(got, [[
#include "khost.h"

__global__ void run_kernel(const float* x, float* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) {
    float t1 = x[i] > 0 ? x[i] : 0;
    out[i] = t1 - 0.5f;
  }
}

extern "C" int run(const float* x, float* out, int64_t n, khost::stream* stream) {
  run_kernel<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(x, out, n);
  return cudaGetLastError();
}
KHOST_EXPORT(run)
]])
end

function spec.separate_is_one_launch_an_operator()
  local got = text(FAMILIES.bias(), "separate")
  has(got, "t1_kernel<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(x, bias, out, n, cols);")
  has(got, "t2_kernel<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(out, out, n);")
  t.is_true(not got:find("workspace", 1, true), got)
end

function spec.values_that_outlive_the_output_go_to_the_workspace()
  local got = text(FAMILIES.layer_norm(), "separate")
  has(got, "khost::workspace w, khost::stream* stream) {")
  has(got, "float* q1 = b1 + rows * cols;")
end

function spec.what_does_not_fit_into_the_workspace_is_refused()
  local g = FAMILIES.layer_norm()
  g.inputs[1].size, g.nodes[1].size, g.nodes[2].size = { 4096, 8192 }, { 4096, 8192 }, { 4096, 8192 }
  g.inputs[2].size, g.inputs[3].size, g.nodes[1].attributes.normalized_shape = { 8192 }, { 8192 }, { 8192 }
  local nothing, why, code = expert.answer(g, { variant = "separate" })
  t.expect({ nothing == nil, code }, { true, "unsupported" })
  has(why, "workspace")
  has(text(g, "vector"), "float4")
end

function spec.vector_loads_sixteen_bytes_and_sums_by_warps()
  local got = text(FAMILIES.softmax(), "vector")
  has(got, "__shfl_xor_sync")
  has(got, "float4 x4 = x[i];")
  has(got, "out[i] = make_float4(")
  local odd = FAMILIES.chain()
  odd.inputs[1].size, odd.nodes[1].size, odd.nodes[2].size = { 4, 7 }, { 4, 7 }, { 4, 7 }
  local nothing, why = expert.answer(odd, { variant = "vector" })
  t.is_true(nothing == nil)
  has(why, "multiple of four")
end

function spec.functions_have_the_names_that_cuda_gives_them_for_float()
  local got = text(graph { { op = "abs", inputs = { "x" } }, { op = "log1p", inputs = { "t1" } } }, "scalar")
  has(got, "fabsf(x[i])")
  has(got, "log1pf(t1)")
  t.is_true(not got:find("std::", 1, true), got)
end

function spec.names_that_the_kernels_use_themselves_are_refused()
  local g = FAMILIES.chain()
  g.inputs[1].name, g.nodes[1].inputs[1], g.nodes[2].inputs[1] = "value", "value", "value"
  local nothing, why, code = expert.answer(g)
  t.expect({ nothing == nil, code }, { true, "unsupported" })
  has(why, "an input called value")
end

function spec.one_mistake_of_a_named_kind_is_planted()
  local right, stream = text(FAMILIES.bias(), "scalar"), random.stream("one mistake")
  local found = 0
  for _, kind in ipairs(faults.KINDS) do
    local answer = expert.answer(FAMILIES.bias(), { variant = "scalar", fault = kind, random = stream })
    if answer then
      found = found + 1
      t.expect(answer.faults, { kind })
      t.is_true(answer.files[expert.PATH] ~= right, kind)
    end
  end
  t.is_true(found >= 5, found .. " kinds fit")
  t.raises("unknown kind of mistake", expert.answer, FAMILIES.bias(), { fault = "typo", random = stream })
end

-- All files as one, each in a namespace of its own: nvcc takes seconds to start.
local function together(files)
  local parts = { '#include "khost.h"' }
  for index, file in ipairs(files) do
    local body = file:gsub('#include "khost.h"\n', "")
    parts[#parts + 1] = ("namespace f%d {\n%s}"):format(index, (body:gsub("%f[%w_]run%f[^%w_]", "run" .. index)))
  end
  return table.concat(parts, "\n") .. "\n"
end

function spec.every_family_and_variant_compiles()
  local files, stream = {}, random.stream("cuda expert spec")
  for _, variant in ipairs(expert.ORDER) do
    for _, make in pairs(FAMILIES) do
      files[#files + 1] = text(make(), variant)
    end
    for _ = 1, 30 do
      local task = compose.task(stream, { families = { "chain", "bias", "rows", "reduce" }, length = { 1, 4 },
        shapes = { { 64, 128 } } })
      files[#files + 1] = text(task.graph, variant)
    end
  end
  t.expect(#files, 3 * (9 + 30))
  if not fs.exists("/usr/local/cuda/bin/nvcc") then
    return
  end
  kit.within(function(call)
    local output = kit.bash(call, "/usr/local/cuda/bin/nvcc -arch=sm_90 -std=c++20 -shared -Xcompiler -fPIC -Iutils " ..
      "-o /tmp/all.so kernels/all.cu && echo made a library", { timeout = 300000 })
    has(output, "made a library")
  end, { files = { ["kernels/all.cu"] = together(files),
    ["utils/khost.h"] = assert(fs.read(fs.root() .. "/skills/cuda-kernel/template/utils/khost.h")) } })
end

return spec
