---@meta khost.policy
-- A local model that draws tokens. Concurrent requests share every step; a prompt that begins with what an earlier
-- request left in the cache reads only what is new.

local policy = {}

---@class khost.Policy
local Policy = {}

--- Opens a model for generation only. Options as in trainer.open.
---@async
---@param options khost.OpenTrainer
---@return khost.Policy|nil, string? message, string? code
function policy.open(options) end

---@class (exact) khost.GenerateOptions
---@field max_tokens? integer         256
---@field temperature? number         1; 0 takes the most likely token
---@field seed? integer               from the policy's own stream when absent
---@field top_k? integer              0; draw among the k most likely tokens only
---@field top_p? number               1; draw among the fewest tokens that hold this share of the probability
---@field stop? (integer|string)[]    ids, special tokens by their text, or any other text, which ends a sequence where it
---                                  is complete and is cut from `text`; the model's end token when absent
---@field special? boolean            parse special tokens in a text prompt; false

---@class (exact) khost.Completion
---@field text? string         without special tokens; nil when the policy has no tokenizer
---@field tokens integer[]     as drawn, the stop token included
---@field logprobs number[]    of every drawn token under the temperature it was drawn with, before top_k and top_p
---@field finish "stop"|"length"
---@field version integer      of the weights that drew it; grows with every update

--- Draws one sequence. A cancelled call leaves the engine at its next step.
---@async
---@param prompt integer[]|string
---@param options? khost.GenerateOptions
---@return khost.Completion|nil, string? message, string? code
function Policy:generate(prompt, options) end

--- Draws `count` sequences for one prompt, which is read once. Each has its own seed, derived from `seed`.
---@async
---@param prompt integer[]|string
---@param count integer
---@param options? khost.GenerateOptions
---@return khost.Completion[]|nil, string? message, string? code
function Policy:generate_group(prompt, count, options) end

--- Log-probability of every token given those before it; the first is 0.
---@async
---@param tokens integer[]
---@param options? {temperature?: number}
---@return number[]|nil, string? message, string? code
function Policy:logprobs(tokens, options) end

--- `special`: whether text such as <|im_end|> becomes its token. Leave it off for text that the model did not write.
---@param text string
---@param options? {special?: boolean}
---@return integer[]
function Policy:encode(text, options) end

---@param tokens integer[]
---@param options? {special?: boolean}
---@return string
function Policy:decode(tokens, options) end

--- The id of a special token.
---@param text string
---@return integer|nil
function Policy:special(text) end

--- The token that is written where an answer ends; nil when the model names none.
---@return integer|nil
function Policy:end_token() end

--- Every token that ends a generation without `stop`: those of config.json and generation_config.json.
---@return integer[]
function Policy:end_tokens() end

--- The longest sequence the model reads.
---@return integer
function Policy:positions() end

---@return integer
function Policy:version() end

---@return {requests: integer, steps: integer, drawn_tokens: integer, prompt_tokens: integer, reused_tokens: integer, busy_s: number, tokens_per_s: number}
function Policy:stats() end

--- Gives up this handle: whatever is called on it then raises. The weights are freed when the trainer's and all other
--- handles are given up or collected too.
function Policy:close() end

return policy
