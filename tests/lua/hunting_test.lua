-- hunting: mutations strike where they should and are the same again, and what was found gets smaller.
local mutations = require "hunting.mutations"
local random = require "lib.random"
local shrink = require "hunting.shrink"
local t = require "tests.lua.harness"

local spec = {}

local KERNEL = [[
#include "khost.h"
extern "C" int f(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = x[i] * 0.5f + 1.0f;
  }
  return 0;
}
KHOST_EXPORT(f)
]]

local function mutated(kind, strength)
  local files, changed = mutations.apply({ ["kernels/k.cpp"] = KERNEL, ["model_new.py"] = "out[i] = 1;" },
    { { kind = kind, where = 0, strength = strength } })
  t.expect(files["model_new.py"], "out[i] = 1;")
  return files["kernels/k.cpp"], changed
end

function spec.each_mutation_changes_a_kernel_that_has_its_place()
  for _, case in ipairs {
    { "cut_loop", 0, "for (int64_t i = 0; i < (n) - (n) / 2;" },
    { "skip_elements", 1, "if (static_cast<long>(i) % 8 != 0) { out[i] = x[i] * 0.5f + 1.0f; }" },
    { "scale", 4, "out[i] = (x[i] * 0.5f + 1.0f) * 0.0f;" },
    { "flush", 0, "(whole < 1e-6f && whole > -1e-6f) ? 0 : whole;" },
    { "bound", 3, "out[i] = whole > 1.0f ? 1.0f : whole;" },
    { "round", 0, "static_cast<float>(static_cast<_Float16>(x[i] * 0.5f + 1.0f))" },
    { "drop_summand", 0, "out[i] = x[i] * 0.5f;" },
    { "stop_after", 1, "if (calls_made++ >= 5) { return 0; }" },
    { "begin_after", 0, "if (calls_made++ < 1) { return 0; }" },
    { "read_neighbours", 1, "out[i] = x[(i) / 8 * 8] * 0.5f + 1.0f;" },
    { "trust_first", 0, "if (called && x[0] == first) { return 0; } called = true; first = x[0];" },
    { "acknowledge_first", 0, "{ acknowledge_call(); " },
  } do
    local text, changed = mutated(case[1], case[2])
    t.is_true(changed and text:find(case[3], 1, true), case[1] .. ":\n" .. text)
  end
  local text, changed = mutated("change_number", 4)
  t.is_true(changed and not text:find("0.5f", 1, true), text)
end

function spec.what_has_no_place_for_a_mutation_stays()
  for _, name in ipairs(mutations.NAMES) do
    local files = { ["kernels/k.cpp"] = "int nothing;\n" }
    local same, changed = mutations.apply(files, { { kind = name, where = 7, strength = 3 } })
    t.expect({ same, changed }, { files, false })
  end
end

function spec.a_seed_gives_the_same_mutations_again()
  for index = 1, 50 do
    local key = "hunt 1 " .. index
    local list = mutations.draw(random.stream(key), 3)
    t.expect(list, mutations.draw(random.stream(key), 3))
    t.is_true(#list >= 1 and #list <= 3)
  end
end

function spec.a_find_is_shrunk_to_what_it_needs()
  local text = "a\nb\nneeded\nc\nneeded too\nd\ne"
  local asked = 0
  local small = shrink.text(text, function(shorter)
    asked = asked + 1
    return shorter:find("needed\n", 1, true) ~= nil and shorter:find("needed too", 1, true) ~= nil
  end, 100)
  t.expect(small, "needed\nneeded too")
  t.is_true(asked <= 100)
  local _, left = shrink.text(text, function() return false end, 3)
  t.expect(left, 0)
end

return spec
