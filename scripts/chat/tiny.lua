-- The chat format of the small policies: a traced graph in, one fenced kernel out, a word of feedback, again.
--
--   <|task|>x 1024 1024⏎t1 = relu(x)<|answer|>```cpp kernels/k.cpp⏎…```⏎<|end|><|result|>wrong<|answer|>…
--
-- The model draws what follows <|answer|> up to and with <|end|>. The word "done" without a block ends an episode.

local graph_text = require "lib.graph"
local parse = require "agent.parse"
local token_lists = require "chat.tokens"
local verdicts = require "judge.verdict"

local append = token_lists.append

local tiny = {}

tiny.SPECIALS = { "<|end|>", "<|task|>", "<|answer|>", "<|result|>" }
tiny.STOP = "<|end|>"
tiny.DONE = "done\n"
tiny.answers_are_files = true

local Chat = {}
Chat.__index = Chat

--- The format over something that encodes: a khost.Policy or a khost.Tokenizer.
---@param codec table
---@return table
function tiny.open(codec)
  local ids = {}
  for _, name in ipairs(tiny.SPECIALS) do
    ids[name] = codec:special(name) or error("the tokenizer has no token " .. name, 2)
  end
  return setmetatable({ codec = codec, ids = ids }, Chat)
end

--- The tokens in front of the first answer.
---@param task {graph: table}
---@return integer[]
function Chat:prompt(task)
  return self:prompt_text(graph_text.text(task.graph))
end

---@param text string
---@return integer[]
function Chat:prompt_text(text)
  local tokens = append({ self.ids["<|task|>"] }, self.codec:encode(text))
  return append(tokens, { self.ids["<|answer|>"] })
end

--- The tokens between two answers.
---@param text string
---@return integer[]
function Chat:observation(text)
  local tokens = append({ self.ids["<|result|>"] }, self.codec:encode(text))
  return append(tokens, { self.ids["<|answer|>"] })
end

--- The tokens of an answer as the model would draw them.
---@param text string
---@return integer[]
function Chat:answer(text)
  return append(self.codec:encode(text), { self.ids["<|end|>"] })
end

--- What an answer means: files to write, the end, or nothing that can be used.
---@param text string
---@param options? {cut?: boolean}
---@return {kind: "act"|"final"|"invalid", files?: table<string, string>, label?: string, signature?: string}
function tiny.action(text, options)
  if text == tiny.DONE and not (options and options.cut) then
    return { kind = "final" }
  end
  local files, label = parse.files(text, options)
  if not files then
    return { kind = "invalid", label = label }
  end
  return { kind = "act", files = files, signature = parse.render(files) }
end

--- What the policy reads about a verdict: a word, or the first error of the compiler.
---@param verdict table
---@return string
function tiny.feedback(verdict)
  if verdicts.passed(verdict) then
    return "ok"
  elseif verdict.status == "build_failed" then
    local message = tostring(verdict.detail or ""):match("error: ([^\n]*)") or ""
    return ("build error: " .. message):sub(1, 80)
  end
  return verdict.status == "wrong" and "wrong" or verdict.status
end

return tiny
