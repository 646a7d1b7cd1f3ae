-- training.lessons, training.prompts and chat.files: what a supervised start learns from, and how it is said.
local compose = require "synthesis.compose"
local files = require "chat.files"
local lessons = require "training.lessons"
local parse = require "agent.parse"
local prompts = require "training.prompts"
local random = require "lib.random"
local t = require "tests.lua.harness"
local watch = require "training.watch"

local function run_with(rows, target)
  return { seed = 1, store = { list = function() return rows end },
    config = { machine = { target = target or "cuda" }, prompt = { examples = 2, variants = 3 },
      tasks = { families = { "chain", "chain", "bias", "rows", "reduce" }, length = { 1, 3 },
        small_shapes = { { 256, 512 } } } } }
end

-- Letters as tokens; special tokens by name.
local CODEC = { special = function(_, name) return name:match("^<|im_%a+|>$") and name or nil end,
  encode = function(_, text)
    local list = {}
    for letter in text:gmatch(".") do list[#list + 1] = letter end
    return list
  end }

local spec = {}

function spec.a_combination_is_the_sorted_operators()
  t.expect(lessons.combination "tanh relu tanh", "relu tanh tanh")
  t.expect(lessons.combination "tanh relu tanh", lessons.combination "tanh tanh relu")
end

function spec.no_lesson_shares_a_combination_with_another_set_and_every_operator_is_shown()
  local rows, stream, taken = {}, random.stream "others", {}
  for index = 1, 300 do
    local task = compose.task(stream, { families = { "chain", "bias", "rows", "reduce" }, length = { 1, 2 } })
    rows[index] = { chain = task.chain }
    taken[lessons.combination(task.chain)] = true
  end
  local list = lessons.tasks(run_with(rows), { count = 60, stream = random.stream "lessons", length = { 1, 3 },
    least = 2 })
  t.is_true(#list >= 60)
  local seen, own = {}, {}
  for _, task in ipairs(list) do
    local key = lessons.combination(task.chain)
    t.is_true(not taken[key], key)
    t.is_true(not own[key], "twice: " .. key)
    own[key] = true
    for name in task.chain:gmatch("%S+") do seen[name] = (seen[name] or 0) + 1 end
  end
  for _, name in ipairs { "gelu", "softplus", "mish", "log_softmax", "layer_norm", "amax", "add_bias", "gate", "exp" } do
    t.is_true((seen[name] or 0) >= 2, name .. " stands in " .. tostring(seen[name]) .. " lessons")
  end
end

function spec.lessons_that_cannot_be_found_are_an_error()
  local run = run_with {}
  run.config.tasks.families = { "reduce" }
  t.raises("tasks found", lessons.tasks, run, { count = 50, stream = random.stream "few", length = { 1, 1 } })
end

function spec.prompts_have_examples_of_the_target_and_variants_differ()
  for _, target in ipairs { "cuda", "cpu" } do
    local format = prompts.format(run_with({}, target))
    local path = "kernels/k." .. (target == "cuda" and "cu" or "cpp")
    t.expect({ #format.fixed.examples, #format.variants }, { 2, 3 })
    t.is_true(format.fixed.examples[1].code:find("KHOST_EXPORT(", 1, true) ~= nil)
    local function all(form) return form.examples[1].code .. form.examples[2].code end
    t.is_true(all(format.variants[1]) ~= all(format.fixed) and all(format.variants[2]) ~= all(format.fixed))
    t.is_true(format.variants[1].system ~= format.fixed.system)
    local action = format.action("```" .. (target == "cuda" and "cuda" or "cpp") .. "\nint a;\n```")
    t.expect({ action.kind, action.files[path] }, { "act", "int a;\n" })
  end
end

function spec.answers_are_read_as_files_or_the_end()
  local format = files.format { target = "cuda", fixed = { system = "s", examples = {} } }
  t.expect(format.action("done").kind, "final")
  t.expect(format.action(" done.\n").kind, "final")
  t.expect(format.action("done", { cut = true }).kind, "invalid")
  t.expect(format.action("I am done"), { kind = "invalid", label = "no_block" })
  t.expect(format.action("```cuda\nint a;\n").label, "unclosed")
  t.expect(format.action("```cuda\nint a;\n```\n```cuda\nint b;\n```").label, "duplicate_path")
  t.expect(format.action("Here:\n```cpp kernels/other.cpp\nint a;\n```").files, { ["kernels/other.cpp"] = "int a;\n" })
  t.expect(format.action(files.block("int a;\n", "cuda")).files, { ["kernels/k.cu"] = "int a;\n" })
  -- What is written is what is read.
  t.expect(parse.files(format.action(files.block("int a;\n", "cuda")).signature), { ["kernels/k.cu"] = "int a;\n" })
end

function spec.the_prompt_is_chatml_and_half_of_the_episodes_get_a_variant()
  local format = files.format { target = "cuda", fixed = { system = "S", examples = { { source = "m\n", code = "c\n" } } },
    variants = { { system = "V", examples = {} } } }
  local chat = format.open(CODEC)
  t.expect(table.concat(chat:prompt { source = "q\n" }), "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nModel:\n```python\n"
    .. "m\n```<|im_end|>\n<|im_start|>assistant\n```cuda\nc\n```<|im_end|>\n<|im_start|>user\nModel:\n```python\nq\n```"
    .. "<|im_end|>\n<|im_start|>assistant\n")
  local stream, varied = random.stream "prompts", 0
  for _ = 1, 400 do
    varied = varied + (table.concat(chat:prompt({ source = "q\n" }, stream)):find("system\nV", 1, true) and 1 or 0)
  end
  t.is_true(varied > 120 and varied < 280, varied .. " of 400")
  t.raises("<|im_start|>", format.open, { special = function() end })
end

function spec.feedback_is_short_and_begins_with_the_error()
  local function seen(status, reason, detail) return { status = status, reason = reason, detail = detail } end
  t.is_true(files.feedback(seen("ok", "", "")):find("done", 1, true) ~= nil)
  local text = files.feedback(seen("build_failed", "compiler", "nvcc x\nk.cu(3): error: no\nmore"))
  t.expect(text, "build_failed: compiler\nk.cu(3): error: no\nmore")
  t.is_true(#files.feedback(seen("wrong", "values", ("x"):rep(5000))) < 450)
end

function spec.a_wrong_answer_is_read_and_the_right_one_behind_it_is_imitated()
  local format = files.format { target = "cuda", fixed = { system = "S", examples = {} } }
  local task = { id = "a", source = "q\n" }
  local answers = { { task = task, variant = "vector", code = "good\n", correct = true, verdict = { status = "ok",
    reason = "", detail = "" } }, { task = task, variant = "fault", code = "bad\n", correct = false,
    verdict = { status = "wrong", reason = "values", detail = "" } } }
  local episodes, left_out = lessons.episodes(format.open(CODEC), format, answers, { seed = 1, tokens = 2000, answer_tokens = 50, share = 1,
    done = files.DONE, render = function(code) return files.block(code, "cuda") end })
  t.expect({ #episodes, left_out.fault }, { 2, 1 })
  local function learnt(e)
    local parts = {}
    for at, bit in ipairs(e.mask) do parts[#parts + 1] = bit == 1 and e.tokens[at] or nil end
    return table.concat(parts)
  end
  t.expect(learnt(episodes[1]), "```cuda\ngood\n```<|im_end|>done<|im_end|>")
  t.expect(learnt(episodes[2]), "```cuda\ngood\n```<|im_end|>")
  t.is_true(table.concat(episodes[2].tokens):find("bad\n```<|im_end|>\n<|im_start|>user\nwrong: values", 1, true) ~= nil)
  -- What is longer than an answer or a conversation may be is left out, and said.
  local _, out = lessons.episodes(format.open(CODEC), format, answers, { seed = 1, tokens = 2000, answer_tokens = 4, share = 1,
    done = files.DONE, render = function(code) return code end })
  t.expect(out, { fault = 1, too_long = 2 })
end

function spec.families_take_turns_and_all_episodes_stand_in_the_order()
  local list = {}
  for index = 1, 6 do list[index] = { family = "bias", name = "b" .. index } end
  list[7], list[8], list[9] = { family = "rows", name = "r1" }, { family = "rows", name = "r2" }, { name = "dialogue" }
  local names = {}
  for index, one in ipairs(lessons.in_turns(list, { "bias", "rows", "rows", "reduce" })) do names[index] = one.name end
  t.expect(table.concat(names, " "), "b1 r1 r2 b2 r1 r2 b3 r1 dialogue r2 b4 r1 r2 b5 r1 r2 b6")
  t.is_true(lessons.in_turns(list, {}) == list and lessons.in_turns(list, { "chain" }) == list)
end

function spec.lessons_are_of_the_families_that_are_named()
  local seen = {}
  for _, task in ipairs(lessons.tasks(run_with {}, { count = 20, stream = random.stream "some", length = { 1, 3 },
    families = { "rows", "rows", "bias" } })) do
    seen[task.family] = (seen[task.family] or 0) + 1
  end
  t.is_true(seen.rows > seen.bias and seen.rows + seen.bias == 20, "rows " .. tostring(seen.rows))
end

function spec.spread_is_surprise_of_drawn_tokens_and_different_texts()
  local function e(text, logprobs) return { task = "a", mask = { 0, 1, 1 }, logprobs = logprobs, turns = { { text = text } } } end
  local seen = watch.spread { e("x", { -9, -1, -2 }), e("x", { -9, 0, -1 }), { task = "a" } }
  t.expect(seen, { nats_token = 1, nats_answer = 2, distinct_texts = 0.5 })
  t.expect(watch.spread {}, {})
end

return spec
