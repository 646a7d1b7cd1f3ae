-- Token-step episodes for specs: a service with a tokenizer and a store, and a client that draws what a spec says.
local fs = require "khost.fs"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local sched = require "khost.sched"
local store = require "khost.store"
local tokenizers = require "serve.tokenizers"
local toy = require "training.toy"
local trainer = require "khost.trainer"

local episodes_kit = {}

local TEXTS = { "assistant\nuser\nsystem\n<tool_call>\n{\"name\": \"Write\", \"arguments\": {}}\n</tool_call>",
  "```cpp kernels/k.cpp\nint a;\n```\ndone the answer is correct wrong" }

--- Calls fn(service) as serve_kit does; the service has episodes with the tokenizer "toy" besides:
--- service.tokenizer, service.store, service.begin(more, headers), service.step(id, body, headers).
---@param options table   of serve_kit, and most: episodes open at once
function episodes_kit.with(options, fn)
  local tokenizer = assert(trainer.train_tokenizer(TEXTS, { vocab = 300, specials = toy.SPECIALS }))
  local registered = assert(tokenizers.open {})
  registered:add("toy", { tokenizer = tokenizer, ends = { tokenizer:special "<|endoftext|>" } })
  local root = "/tmp/khost-episodes-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local run = assert(store.create(root, { name = "serve" }))
  local whole = { episodes = { tokenizers = registered, store = run, most = options.most or 8 } }
  for name, value in pairs(options) do whole[name] = value end
  local ok, message = pcall(kit.with, whole, function(service)
    service.tokenizer, service.store = tokenizer, run
    local function ask(path, body, headers, method)
      local got = service.send(path, body and (type(body) == "string" and body or json.encode(body)) or nil, headers,
        method)
      return got.status, json.decode(got.body), got
    end
    service.ask = ask
    function service.begin(more, headers)
      local body = { task = "task", tokenizer = "toy", format = "files" }
      for name, value in pairs(more or {}) do body[name] = value end
      return ask("/v1/episodes", body, headers)
    end
    function service.step(id, body, headers) return ask(("/v1/episodes/%s/step"):format(id), body, headers) end
    function service.delete(id, headers) return ask("/v1/episodes/" .. id, nil, headers, "DELETE") end
    -- A step as a trainer would send it: the text's tokens and the one that ends an answer.
    function service.says(number, text, more)
      local tokens = tokenizer:encode(text)
      tokens[#tokens + 1] = tokenizer:special "<|im_end|>"
      local logprobs = {}
      for index = 1, #tokens do logprobs[index] = -index / 64 end
      local body = { step = number, tokens = tokens, logprobs = logprobs, finish = "stop", version = 3 }
      for name, value in pairs(more or {}) do body[name] = value end
      return body
    end
    function service.stored()
      local list = {}
      for index, row in ipairs(assert(run:list("trajectories", {}))) do
        list[index] = run:get("trajectories", row.id)
      end
      return list
    end
    fn(service)
  end)
  run:close()
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

return episodes_kit
