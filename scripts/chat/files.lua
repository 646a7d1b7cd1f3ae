-- The chat format of ChatML models whose answers are files: rules and worked examples in front, a PyTorch model as the
-- question, one fenced block with one file as the answer, a few words about it as the next question. It needs no tools,
-- so small models can learn it in a few supervised steps.
--
-- A block that names no path is the target's one file (kernels/k.cpp or kernels/k.cu). The word "done" without a block
-- ends an episode.

local chatml = require "chat.chatml"
local experts = require "policies.experts"
local parse = require "agent.parse"
local verdicts = require "judge.verdict"

local files = {}

files.STOP = chatml.STOP
files.DONE = "done"

local LANGUAGE = { cpu = "cpp", cuda = "cuda" }
local MOST_FEEDBACK = 400  -- bytes of what a compiler or a comparison said

local Chat = chatml.class()

--- What a user's turn says about a task.
---@param source string   the task's Python
---@return string
function files.question(source)
  return "Model:\n```python\n" .. source .. "```"
end

--- What is said in front of the first answer.
---@param form PromptForm
---@param task {source: string}
---@param target "cpu"|"cuda"
---@return {role: string, text: string}[]
function files.messages(form, task, target)
  local list = { { role = "system", text = form.system } }
  for _, example in ipairs(form.examples) do
    list[#list + 1] = { role = "user", text = files.question(example.source) }
    list[#list + 1] = { role = "assistant", text = files.block(example.code, target) }
  end
  list[#list + 1] = { role = "user", text = files.question(task.source) }
  return list
end

--- The tokens in front of the first answer. With prompt variants one of them, or in half of the cases the fixed prompt,
--- is drawn from the episode's random numbers.
---@param task {source: string}
---@param stream? lib.Random   nil: the fixed prompt
---@return integer[]
function Chat:prompt(task, stream)
  local variants = self.format.variants
  -- Half under the fixed prompt: validation and evaluation ask with it.
  local varied = stream and #variants > 0 and stream:number() < 0.5
  local number = varied and stream:integer(1, #variants) or 0
  local tokens = {}
  for _, message in ipairs(files.messages(variants[number] or self.format.fixed, task, self.format.target)) do
    self:message(tokens, message.role, message.text)
  end
  return self:answer_begins(tokens)
end

--- A file as an answer carries it.
---@param code string
---@param target "cpu"|"cuda"
---@return string
function files.block(code, target)
  return ("```%s\n%s```"):format(LANGUAGE[target], code)
end

--- What the policy reads about a verdict: a word, and the first lines of what was wrong.
---@param verdict table   of the judge, or its feedback
---@return string
function files.feedback(verdict)
  if verdicts.passed(verdict) then
    return ("correct; improve its speed, or answer %s"):format(files.DONE)
  end
  local detail = tostring(verdict.detail or "")
  if verdict.status == "build_failed" then
    local from = detail:find("error", 1, true) or 1
    detail = detail:sub(detail:sub(1, from):match(".*\n()") or 1)
  end
  local reason = verdict.reason ~= "" and verdict.reason or nil
  local text = (reason and verdict.status .. ": " .. reason or verdict.status) .. "\n" .. detail
  return #text > MOST_FEEDBACK and text:sub(1, MOST_FEEDBACK) .. "…" or text
end

local EXPLAINED = { no_block = "the answer has no fenced block; write one with the whole file",
  duplicate_path = "the answer has several blocks; write one with the whole file",
  unclosed = "the block is not closed" }

---@class (exact) PromptForm
---@field system string
---@field examples {source: string, code: string}[]

-- A first line of a block that names a language alone gets the target's path.
local function with_path(text, path)
  return ("\n" .. text):gsub("(\n```+)[ \t]*(%w+)[ \t]*(\r?\n)", "%1%2 " .. path .. "%3"):sub(2)
end

--- The format for a target, with the prompts of a run.
---@param options {target: "cpu"|"cuda", fixed: PromptForm, variants?: PromptForm[]}
---@return table
function files.format(options)
  local path = experts.of(options.target).PATH
  local format = { STOP = files.STOP, answers_are_files = true, target = options.target, fixed = options.fixed,
    variants = options.variants or {}, feedback = files.feedback }
  function format.open(codec)
    return chatml.open(Chat, codec, { format = format })
  end
  --- What an answer means: files to write, the end, or nothing that can be used.
  ---@param text string
  ---@param how? {cut?: boolean}
  ---@return {kind: "act"|"final"|"invalid", files?: table<string, string>, label?: string, signature?: string}
  function format.action(text, how)
    local cut = how and how.cut
    if not cut and text:match("^%s*(%w+)%.?%s*$") == files.DONE then
      return { kind = "final" }
    end
    local made, label = parse.files(with_path(text, path), how)
    if not made then
      return { kind = "invalid", label = label }
    end
    return { kind = "act", files = made, signature = parse.render(made) }
  end
  function format.explain(label)
    return EXPLAINED[label] or label
  end
  return format
end

return files
