-- synthesis.compose, synthesis.similarity and the corpus: tasks from seeds, sets apart by their chains.
local compose = require "synthesis.compose"
local corpus = require "policies.corpus"
local graph_text = require "lib.graph"
local judge = require "judge.client"
local operators = require "synthesis.operators"
local random = require "lib.random"
local similarity = require "synthesis.similarity"
local t = require "tests.lua.harness"

local spec = {}

function spec.a_seed_makes_the_same_task_again()
  local function draw() return compose.task(random.stream(3), { families = { "bias" }, length = { 2, 4 } }).source end
  t.expect(draw(), draw())
  t.is_true(draw():find("class Model(nn.Module)", 1, true))
end

function spec.families_hold_what_they_promise()
  local stream = random.stream("families")
  for _ = 1, 100 do
    t.is_true(compose.task(stream, { families = { "bias" } }).chain:find("add_bias") or true)
    local rows = compose.task(stream, { families = { "reduce" }, length = { 2, 4 } })
    t.expect(operators.BY_NAME[rows.chain:match("%S+$")].kind, "reduce")
    local chain = compose.task(stream, { families = { "chain" }, heavy = true, length = { 1, 5 } })
    t.is_true(chain.depth >= 1 and chain.depth <= 5)
  end
end

function spec.options_are_checked()
  t.raises("unknown family", compose.task, random.stream(1), { families = { "gemm" } })
  t.raises("unknown operator", compose.task, random.stream(1), { operators = { "relux" } })
end

function spec.exp_follows_bounded_values_only()
  local stream = random.stream("exp")
  for _ = 1, 300 do
    local chain = compose.task(stream, { families = { "chain" }, length = { 1, 5 } }).chain
    local before = (" " .. chain):match("(%S+) exp") or chain:match("^exp") and "x"
    if before then
      local entry = operators.BY_NAME[before]
      t.is_true(entry and (entry.range == "bounded" or entry.keeps), chain)
    end
  end
end

function spec.sets_share_no_chain()
  local stream, owner = random.stream("sets"), {}
  for _, set in ipairs { "base", "train", "validation", "test" } do
    for _ = 1, 40 do
      local chain = corpus.task(stream, set, { families = { "chain", "bias" }, length = { 1, 3 } }).chain
      t.is_true(owner[chain] == nil or owner[chain] == set, chain)
      owner[chain] = set
    end
  end
end

function spec.the_corpus_is_made_again_from_its_seed()
  local function text()
    local list = corpus.make(5, 30,
      { tasks = { families = { "chain", "reduce" } }, fault_rate = 0.25, turns = 3, again = 0.5 })
    local parts = {}
    for _, dialogue in ipairs(list) do
      parts[#parts + 1] = dialogue.prompt
      for _, turn in ipairs(dialogue.turns) do parts[#parts + 1] = turn.answer end
    end
    return table.concat(parts, "\n")
  end
  t.expect(text(), text())
end

function spec.graphs_read_as_short_lines()
  local task = compose.task(random.stream("text"),
    { families = { "chain" }, operators = { "leaky_relu", "square" }, length = { 2, 2 } })
  t.is_true(graph_text.text(task.graph):match("^x\nt1 = [%w_]+%(x, [%d%.]+%)\nt2 = [%w_]+%(t1, [%d%.]+%)$"),
    graph_text.text(task.graph))
end

function spec.similarity_ignores_names_and_sees_operators()
  local function program(variable, op)
    return ("import torch\nclass Model(torch.nn.Module):\n    def forward(self, %s):\n        %s = torch.%s(%s)\n        return %s * 2\n")
      :format(variable, variable, op, variable, variable)
  end
  local a = similarity.profile(program("x", "relu"))
  t.expect(similarity.compare(a, similarity.profile(program("value", "relu"))), 1)
  local other = similarity.compare(a, similarity.profile(program("x", "tanh")))
  t.is_true(other > 0.5 and other < 0.9, "similarity " .. other)
  t.expect(similarity.compare(a, similarity.profile("class Model(N):\n    def f(self):\n        pass\n")) < 0.5, true)
  t.expect(similarity.histogram { 0, 0.95, 1 }, { 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 })
end

-- What the composer says about a task is what the tracer finds.
function spec.composed_graphs_equal_traced_ones()
  local process = judge.open(nil, { jobs = 1 })
  if not process then return end
  local stream, said, seen = random.stream("trace"), {}, {}
  for _ = 1, 12 do
    local task = compose.task(stream,
      { families = { "chain", "bias", "rows", "reduce" }, length = { 2, 5 }, shapes = { { 4, 16 } } })
    local traced = assert(process:request("trace", { task = { source = task.source } }))
    said[#said + 1], seen[#seen + 1] = graph_text.text(task.graph), graph_text.text(traced)
    for i, node in ipairs(task.graph.nodes) do
      t.expect({ traced.nodes[i].op, traced.nodes[i].size }, { node.op, node.size })
    end
  end
  process:close()
  t.expect(seen, said)
end

return spec
