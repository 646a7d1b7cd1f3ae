-- synthesis: stacking by shape, duplicates, similarity, repair, and the rubric of admission.
local admission = require "rubrics.admission"
local ask = require "synthesis.ask"
local duplicates = require "synthesis.duplicates"
local fs = require "khost.fs"
local harness = require "tests.lua.harness"
local library = require "synthesis.library"
local making = require "synthesis.making"
local portions = require "synthesis.portions"
local random = require "lib.random"
local repair = require "synthesis.repair"
local similarity = require "synthesis.similarity"
local stack = require "synthesis.stack"
local summary = require "synthesis.summary"

local function case(n, more)
  local size = library.SIZES[n]
  local entry = { size = size, out = size, needs = "any", gives = "any", first = false, legal = {} }
  for key, value in pairs(more or {}) do
    entry[key] = value
  end
  return entry
end

local function operator(name, category, cases, more)
  local entry = { name = name, form = name:match("^nn%.") and "module" or "function", category = category, bound = {},
    cases = cases, call = name:match("^nn%.") and "{m}({x})" or name .. "({x}{arguments})" }
  for key, value in pairs(more or {}) do
    entry[key] = value
  end
  return entry
end

local function all(more)
  return { case(2, more), case(3, more), case(4, more), case(5, more) }
end

local FOUND = { operators = {
  operator("torch.tanh", "pointwise", all { gives = "bounded" }), operator("torch.relu", "pointwise", all()),
  operator("torch.log", "pointwise", all { needs = "positive" }),
  operator("torch.exp", "pointwise", all { gives = "positive" }),
  operator("F.elu", "pointwise", all { legal = { alpha = { 1, 0.5 } } }),
  operator("nn.Linear", "linear", all { legal = { out_features = { 32, 64 }, bias = { true, false } } },
    { bound = { in_features = -1 } }),
  operator("nn.GELU", "activation", all()),
}, skipped = {} }

-- Stands for the judge: the last linear layer sets the last dimension, everything takes everything.
local function probe(sources)
  local out = {}
  for index, source in ipairs(sources) do
    local size, elements = {}, 1
    for n in source:match("torch%.rand[n]?%((.-)%)"):gmatch("%d+") do
      size[#size + 1] = tonumber(n)
    end
    for n in source:gmatch("out_features=(%d+)") do
      size[#size] = tonumber(n)
    end
    for _, n in ipairs(size) do
      elements = elements * n
    end
    out[index] = { outputs = { { size = size, dtype = "float32" } }, peak_bytes = elements * 8, flops = 0,
      elements = elements, unused_parameters = {} }
  end
  return out
end

local function model(body, init)
  return ("import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self):\n        "
    .. "super().__init__()\n%s\n    def forward(self, x):\n%s\n\n\ndef get_inputs():\n    return [torch.randn(4, 4)]\n")
    :format(init or "", body)
end

local function alike(a, b)
  return similarity.compare(similarity.profile(a), similarity.profile(b))
end

local SOUND = { structure = { dead_operators = {}, unused_parameters = {}, unused_inputs = {} }, run = {
  null_candidates = {}, no_operators = {}, idle_modules = {}, uniform_axes = {},
  eager_s = 0.01 } }
local LIMITS = { eager_ms = { 1, 100 }, similarity = 0.9 }

local function changed(part, key, value)
  local facts = {}
  for name, record in pairs(SOUND) do
    facts[name] = {}
    for k, v in pairs(record) do
      facts[name][k] = v
    end
  end
  facts[part][key] = value
  return select(2, admission.eager(facts, LIMITS))
end

return {
  shares_follow_table_3_and_add_up = function()
    local shares = stack.shares(200)
    harness.expect({ shares[1], shares[2], shares[3], shares[4], shares[5] }, { 7, 164, 20, 6, 3 })
    local whole = stack.shares(10000, nil, true)
    harness.expect({ whole[1], whole[2], whole[3], whole[4], whole[5], whole.transformers },
      { 319, 7512, 895, 288, 153, 833 })
    harness.expect(stack.shares(1)[2], 1)
  end,

  the_same_seed_gives_the_same_tasks_and_another_does_not = function()
    local depths = { 1, 2, 2, 3, 5 }
    local first = stack.compose(FOUND, depths, 7, probe)
    harness.expect(#first, 5)
    harness.expect(stack.compose(FOUND, depths, 7, probe), first)
    local other = stack.compose(FOUND, depths, 8, probe)
    harness.is_true(other[4].source ~= first[4].source, "another seed, another task")
    for index, task in ipairs(first) do
      harness.expect(task.depth, depths[index])
    end
  end,

  operators_only_follow_where_their_values_fit = function()
    local few = { operators = { FOUND.operators[1], FOUND.operators[2], FOUND.operators[3], FOUND.operators[4] } }
    local tasks = stack.compose(few, { 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5 }, 3, probe)
    local logs = 0
    for _, task in ipairs(tasks) do
      local before
      for name in task.chain:gmatch("%S+") do
        if name == "torch.log" and before then
          logs = logs + 1
          harness.expect(before, "torch.exp")
        end
        harness.is_true(name ~= before, "the same twice: " .. task.chain)
        before = name
      end
      if task.chain:match("^torch%.log") then
        harness.is_true(task.source:find("torch.rand(", 1, true), "positive inputs")
      end
    end
    harness.is_true(logs > 0, "no logarithm in the middle: nothing was shown")
  end,

  bound_arguments_take_their_value_from_the_shape_before = function()
    local linear = FOUND.operators[6]
    local uses = { { operator = linear, values = { out_features = 32, bias = true } },
      { operator = linear, values = { out_features = 64, bias = false } } }
    local source = library.source(uses, { { 8, 128 }, { 8, 32 } }, "any")
    harness.is_true(source:find("self.linear_1 = nn.Linear(bias=True, in_features=128, out_features=32)", 1, true),
      source)
    harness.is_true(source:find("self.linear_2 = nn.Linear(bias=False, in_features=32, out_features=64)", 1, true),
      source)
    harness.is_true(source:find("x = self.linear_2(x)", 1, true), source)
  end,

  a_budget_that_nothing_keeps_gives_compositions_up = function()
    local function heavy(sources)
      local out = probe(sources)
      for _, facts in ipairs(out) do
        facts.flops = 1e15
      end
      return out
    end
    local tasks, given_up = stack.compose(FOUND, { 1, 2 }, 1, heavy)
    harness.expect({ #tasks, given_up }, { 0, 2 })
  end,

  small_tasks_grow_along_the_leading_dimension = function()
    local task = stack.compose(FOUND, { 1 }, 1, probe)[1]
    harness.is_true(task.reckoned_s >= stack.BUDGET.seconds[1] and task.reckoned_s <= stack.BUDGET.seconds[2],
      tostring(task.reckoned_s))
  end,

  duplicates_differ_in_names_and_numbers_only = function()
    local a = model("        y = torch.tanh(x) * 2\n        return y")
    local tasks = { { name = "a", source = a }, { name = "b", source = (a:gsub("y", "value"):gsub("2", "3.5")) },
      { name = "c", source = model("        y = torch.sin(x) * 2\n        return y") },
      { name = "d", source = "# a comment\n" .. (a:gsub("        y", "        y ")) } }
    harness.expect(duplicates.mark(tasks), 2)
    harness.expect({ tasks[1].duplicate_of, tasks[2].duplicate_of, tasks[3].duplicate_of, tasks[4].duplicate_of },
      { nil, "a", nil, "a" })
  end,

  a_model_that_is_another_class_by_name_is_that_class = function()
    local function named(body, what)
      return (model(body):gsub("class Model", "class Layer")) .. "\n\nModel = " .. what .. "\n"
    end
    local a, b = "        return torch.tanh(x).sum(-1)", "        return F.softmax(x.exp() * 2, -1)"
    local tasks = { { name = "a", source = named(a, "Layer") }, { name = "b", source = named(b, "Layer") },
      { name = "c", source = model(a) } }
    harness.expect(duplicates.mark(tasks), 1)
    harness.expect({ tasks[2].duplicate_of or false, tasks[3].duplicate_of }, { false, "a" })
    harness.is_true(alike(tasks[1].source, tasks[2].source) < 0.9, "other layers, other tokens")
    -- What was there before in another portion counts too.
    local first, later = {}, { { name = "d", source = named(b, "Layer") } }
    duplicates.mark({ tasks[2] }, first)
    harness.expect({ duplicates.mark(later, first), later[1].duplicate_of }, { 1, "b" })
  end,

  similarity_is_one_for_renamed_zero_for_foreign_and_symmetric_between = function()
    local a = model("        x = self.conv(x)\n        x = torch.relu(x)\n        return x * 2",
      "        self.conv = nn.Conv2d(3, 8, 3)\n")
    local renamed = a:gsub("self%.conv", "self.layer"):gsub("%(self, x%)", "(self, data)"):gsub("x = ", "data = ")
      :gsub("%(x%)", "(data)"):gsub("return x", "return data")
    harness.expect(alike(a, renamed), 1)
    local foreign = model("        for i in range(3):\n            x += torch.einsum('ij,kj->ik', x, self.w[i])\n"
      .. "        return x", "        self.w = nn.Parameter(torch.randn(3, 4, 4))\n")
    harness.is_true(alike(a, foreign) < 0.5, "foreign: " .. alike(a, foreign))
    local near = a:gsub("torch%.relu", "torch.tanh")
    harness.is_true(alike(a, near) > 0.6 and alike(a, near) < 1, "one operator differs: " .. alike(a, near))
    harness.expect(alike(a, near), alike(near, a))
    -- Longer programs with one operator changed are nearer.
    local long = model(("        x = torch.sin(x) + 1\n"):rep(20) .. "        return torch.relu(x)")
    harness.is_true(alike(long, (long:gsub("relu", "tanh"))) > 0.9, "a long copy is above the limit")
  end,

  every_rule_of_admission_has_its_reason = function()
    harness.expect({ admission.eager(SOUND, LIMITS) }, { true, "kept" })
    harness.expect(changed("run", "fault", "returns_nan"), "returns_nan")
    harness.expect(changed("run", "fault", "not_deterministic"), "not_deterministic")
    harness.expect(changed("run", "constant_output", true), "constant_output")
    harness.expect(changed("run", "same_across_inputs", true), "same_across_inputs")
    harness.expect(changed("run", "null_candidates", { "sub_sample(input 0, axis 1)" }), "null_sub_sample")
    harness.expect(changed("run", "idle_modules", { "drop (Dropout)" }), "operator_without_effect")
    harness.expect(changed("structure", "dead_operators", { "tanh" }), "dead_code")
    harness.expect(changed("run", "eager_s", 0.0001), "too_fast")
    harness.expect(changed("run", "eager_s", 1), "too_slow")
    harness.expect(select(2, admission.before({ duplicate_of = "a" }, LIMITS)), "duplicate")
    harness.expect(select(2, admission.before({ similarity = 0.91 }, LIMITS)), "similar_to_evaluation")
    harness.expect({ admission.before({ similarity = 0.9 }, LIMITS) }, { true, "kept" })
    harness.expect(select(2, admission.compile {}), "does_not_compile")
    harness.expect(select(2, admission.compile { compile = { compile_agrees = false } }), "compile_disagrees")
    harness.expect({ admission.compile { compile = { compile_agrees = true } } }, { true, "kept" })
    harness.expect(select(2, admission.compile({ compile = { compile_agrees = true, output_digest = "a" } },
      { output_digest = "b" })), "differs_between_processes")
  end,

  a_repair_is_the_first_that_is_kept_and_else_the_task_is_given_up = function()
    local tried = {}
    local source, kind = repair.mend("def get_inputs():\n    return []\n", function(candidate)
      tried[#tried + 1] = candidate
      return #tried == 2, "null_affine", { run = {} }
    end)
    harness.expect({ #tried, kind }, { 2, repair.KINDS[2].name })
    harness.is_true(source:find("_plain_inputs = get_inputs", 1, true), source)
    harness.expect({ repair.mend("x", function() return false, "null_zeros" end) }, { nil, "null_zeros" })
    harness.expect({ repair.may_mend "null_zeros", repair.may_mend "below_tolerance", repair.may_mend "too_fast" },
      { true, true, false })
  end,

  a_model_is_told_what_was_wrong_and_asked_again = function()
    local asked, good = {}, model("        return self.linear(F.gelu(x))", "        self.linear = nn.Linear(4, 4)\n")
    local answers = { "I would rather not.", "```python\nclass Model(nn.Module):\n    pass\n```",
      "Here:\n```python\n" .. good .. "```" }
    local tasks, given_up = ask.compose(FOUND, { 2 }, 1, probe, function(messages)
      asked[#asked + 1] = messages[#messages].content
      return answers[#asked]
    end, { budget = stack.BUDGET })
    harness.expect({ #tasks, given_up, #asked }, { 1, 0, 3 })
    harness.expect({ tasks[1].source, tasks[1].chain, tasks[1].depth }, { good, "nn.Linear", 1 })
    harness.is_true(asked[1]:find("exactly 2 of these", 1, true), asked[1])
    harness.is_true(asked[2]:find("no code block", 1, true) and asked[3]:find("no get_inputs", 1, true), asked[3])
    harness.expect({ ask.compose(FOUND, { 2 }, 1, probe, function() return nil, "down" end,
      { budget = stack.BUDGET }) }, { {}, 1 })
  end,

  layers_that_stand_alone_are_drawn_once_each = function()
    local found = { operators = {} }
    for i = 1, 5 do
      found.operators[i] = { name = "transformers.m.L" .. i, task = "source " .. i,
        cases = { { size = { 2, 8, 16 } } } }
    end
    local tasks, seen = library.alone(found, 4, random.stream "x"), {}
    harness.expect({ #tasks, tasks[1].depth }, { 4, 0 })
    for _, task in ipairs(tasks) do
      harness.expect(seen[task.source], nil)
      seen[task.source] = true
    end
    harness.expect(library.alone(found, 4, random.stream "x"), tasks)
    harness.expect(#library.alone(found, 9, random.stream "x"), 5)
  end,

  a_suite_that_another_process_makes_is_left_to_it = function()
    local folder = "/tmp/khost-synthesis-held"
    assert(fs.mkdirs(folder .. "/work"))
    local held = assert(fs.hold(folder .. "/work/lock"))
    local _, stop = pcall(making.run, { output = folder, rubric = "rubrics.admission", jobs = 1,
      target = "cpu", count = 1, seed = 1, limits = {} })
    held:release()
    assert(fs.remove_tree(folder))
    harness.expect({ stop.exit, stop.message }, { 2, "another process is writing " .. folder .. "/work" })
  end,

  a_stack_that_takes_the_answer_from_the_others_is_the_only_one_without_facts = function()
    local asked = {}
    local process = { request = function(_, _, question)
      local sources = question.request.probe
      asked[#asked + 1] = #sources
      for _, source in ipairs(sources) do
        if source == "hangs" then
          return nil, "a Python child ended", "gone"
        end
      end
      return { probed = probe(sources) }
    end }
    local good = "x = torch.rand(4, 4)"
    local facts = portions.probe(process, "cpu") { good, "hangs", good }
    harness.expect({ facts[1].elements, facts[2].error, facts[3].elements }, { 16, "a Python child ended", 16 })
    harness.expect(asked, { 3, 1, 1, 1 })
  end,

  single_layers_are_sized_by_the_budget_too = function()
    local inputs = "class L(nn.Module):\n    pass\n\n\nModel = L\n\n\ndef get_inputs():\n    return [%s]\n"
    local tasks = { { source = inputs:format("torch.randn(8, 128, 512)"), size = { 2, 8, 512 } },
      { source = inputs:format("torch.rand(4)"), size = { 2, 8, 512 } } }
    portions.sized(tasks, probe, stack.BUDGETS.cuda, 2)
    harness.is_true(tasks[1].size[1] > 8 and tasks[1].reckoned_s >= stack.BUDGETS.cuda.seconds[1], tasks[1].source)
    harness.is_true(tasks[1].source:find(("torch.randn(%d, 128, 512)]"):format(tasks[1].size[1]), 1, true),
      tasks[1].source)
    harness.expect(tasks[2].source, inputs:format("torch.rand(4)"))
    portions.sized({}, probe, stack.BUDGETS.cuda)
  end,

  bins_count_between_their_edges = function()
    harness.expect(summary.bins({ 0.5, 1, 5, 10, 99 }, { 1, 10 }), { 1, 2, 2 })
  end,
}
