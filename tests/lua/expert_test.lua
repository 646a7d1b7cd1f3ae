-- policies.expert: kernels by rule, their variants, and mistakes on purpose.
local client = require "judge.client"
local compose = require "synthesis.compose"
local expert = require "policies.expert"
local expr = require "policies.expert.expr"
local random = require "lib.random"
local t = require "tests.lua.harness"
local template = require "run.template"

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

local spec = {}

function spec.a_chain_becomes_one_loop()
  local got = text(graph { { op = "relu", inputs = { "x" } }, { op = "add", inputs = { "t1", -0.5 } } }, "plain")
  t.expect(got, [[
#include <cmath>
#include "khost.h"
extern "C" int k(const float* x, float* out, long n) {
  for (long i = 0; i < n; i++) {
    float t1 = x[i] > 0 ? x[i] : 0;
    out[i] = t1 - 0.5f;
  }
  return 0;
}
KHOST_EXPORT(k)
]])
end

function spec.separate_passes_go_through_the_output()
  local got = text(graph({ { op = "add", inputs = { "x", "bias" } }, { op = "tanh", inputs = { "t1" } } }, { "bias" }),
    "split")
  t.is_true(got:find("out[i] = x[i] + bias[i % cols];  // t1", 1, true), got)
  t.is_true(got:find("out[i] = fast::tanh(out[i]);  // t2", 1, true), got)
end

function spec.softmax_reuses_the_output_as_scratch()
  local got = text(graph { { op = "softmax", inputs = { "x" }, attributes = { dim = -1 } } }, "fast")
  t.is_true(got:find("fast::exp(x[i] - m1)", 1, true), got)
  t.is_true(not got:find("khost::workspace", 1, true), got)
end

function spec.a_value_that_outlives_the_output_goes_to_the_workspace()
  local got = text(graph {
    { op = "tanh", inputs = { "x" } }, { op = "softmax", inputs = { "t1" }, attributes = { dim = 1 } },
    { op = "add", inputs = { "t2", "t1" } },
  }, "fast")
  t.is_true(got:find("khost::workspace w", 1, true), got)
end

function spec.reductions_return_one_value_a_row()
  local got = text(graph { { op = "mean", inputs = { "x" }, attributes = { dim = { -1 } }, size = { 4 } } }, "fast")
  t.is_true(got:find("out[r] = s1 / cols;", 1, true), got)
end

function spec.what_it_has_no_rule_for_is_refused_with_a_reason()
  local nothing, why, code = expert.answer(graph { { op = "conv2d", inputs = { "x" } } })
  t.expect({ nothing == nil, code }, { true, "unsupported" })
  t.is_true(why:find("conv2d", 1, true))
  local _, reason = expert.answer(graph { { op = "sum", inputs = { "x" }, attributes = { dim = { 0 } },
    size = { 8 } } })
  t.is_true(reason:find("another dimension", 1, true), reason)
  t.raises("unknown variant", expert.answer, graph { { op = "relu", inputs = { "x" } } }, { variant = "quick" })
end

function spec.every_composed_task_has_a_kernel_in_every_variant()
  local stream = random.stream("expert spec")
  for _ = 1, 200 do
    local task = compose.task(stream, { families = { "chain", "bias", "rows", "reduce" }, length = { 1, 5 } })
    for _, variant in ipairs(expert.ORDER) do
      t.is_true(text(task.graph, variant):find("KHOST_EXPORT(k)", 1, true), task.name)
    end
  end
end

function spec.literals_are_floats()
  t.expect({ expr.number(2), expr.number(0.1), expr.number(20), expr.number(1e-5) },
    { "2.0f", "0.1f", "20.0f", "1e-05f" })
end

function spec.mistakes_are_planted_at_their_rate_and_named()
  local stream, planted, total = random.stream("faults"), 0, 0
  local g = graph { { op = "tanh", inputs = { "x" } }, { op = "mul", inputs = { "t1", 2 } },
    { op = "relu", inputs = { "t2" } } }
  local right = text(g, "fast")
  for _ = 1, 400 do
    local answer = assert(expert.answer(g, { variant = "fast", fault_rate = 0.25, random = stream }))
    planted, total = planted + #answer.faults, total + 3
    t.expect(#answer.faults > 0, answer.files[expert.PATH] ~= right)
  end
  local share = planted / total
  t.is_true(share > 0.19 and share < 0.31, "share " .. share)
end

function spec.the_same_seed_plants_the_same_mistakes()
  local function draw()
    return assert(expert.answer(graph { { op = "tanh", inputs = { "x" } }, { op = "neg", inputs = { "t1" } } },
      { variant = "slow", fault_rate = 0.5, random = random.stream(7) })).files[expert.PATH]
  end
  t.expect(draw(), draw())
end

function spec.a_repeated_kernel_runs_its_rows_the_number_of_times_asked_for()
  local chain = graph { { op = "relu", inputs = { "x" } }, { op = "add", inputs = { "t1", -0.5 } } }
  local got = expert.repeated(chain, "fast", 2.25)[expert.PATH]
  t.is_true(got:find("__attribute__((noipa)) static int once(const float* x, float* out, long n) {", 1, true), got)
  t.is_true(got:find("for (int i = 0; i < 2; i++) once(x, out, n);", 1, true), got)
  t.is_true(got:find("n = static_cast<long>(0.2500 * static_cast<double>(n));\n  return once(x, out, n);", 1, true),
    got)
  t.expect(select(2, got:gsub("KHOST_EXPORT", "")), 1)
end

function spec.a_repeated_reduction_counts_rows()
  local softmax = graph { { op = "softmax", inputs = { "x" }, attributes = { dim = -1 } } }
  local got = expert.repeated(softmax, "fast", 1.5)[expert.PATH]
  t.is_true(got:find("rows = static_cast<long>(0.5000 * static_cast<double>(rows));", 1, true), got)
end

local FUNCTIONS = { "tanh(x[i])", "expm1(x[i])", "log1p(fast::exp(x[i]))", "erf(x[i])",
  "tanh(fast::log1p(fast::exp(x[i])))" }
local FUNCTIONS_TASK = [[
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return torch.stack([torch.tanh(x), torch.expm1(x), F.softplus(x), torch.erf(x), torch.tanh(F.softplus(x))])


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return []
]]

function spec.the_fast_functions_keep_the_digits_of_small_numbers()
  local lines = { '#include "fast.h"', 'extern "C" int k(const float* x, float* out, long n) {',
    "  const long count = 512 * 1024;  // elements of x", "  for (long i = 0; i < count; i++) {" }
  for at, call in ipairs(FUNCTIONS) do
    lines[#lines + 1] = ("    out[i + %d * count] = fast::%s;"):format(at - 1, call)
  end
  lines[#lines + 1] = "  }\n  return 0;\n}\nKHOST_EXPORT(k)\n"
  local process = assert(client.open(nil, { jobs = 1, target = "cpu" }))
  local verdict = process:verdict({ id = "functions", source = FUNCTIONS_TASK },
    template.with { [expert.PATH] = table.concat(lines, "\n") }, { measure = false })
  process:close()
  t.expect({ verdict.status, verdict.detail }, { "ok", "" })
end

return spec
