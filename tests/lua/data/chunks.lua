-- Answers of chat completions servers: how they are put together, and what servers say when a conversation does not fit.
-- The wordings are those that users of each server reported; docs/endpoint.md names the reports.
local json = require "khost.json"

local chunks = {}

--- A piece of a stream.
function chunks.delta(delta) return { choices = { { index = 0, delta = delta, finish_reason = json.null } } } end

--- The piece that ends one.
function chunks.finish(reason)
  return { choices = { { index = 0, delta = json.decode "{}", finish_reason = reason } } }
end

--- Pieces as they stand in a body.
function chunks.lines(list)
  local parts = {}
  for index, value in ipairs(list) do parts[index] = "data: " .. json.encode(value) .. "\n\n" end
  return table.concat(parts) .. "data: [DONE]\n\n"
end

--- An answer that is a stream.
function chunks.stream(list) return { type = "text/event-stream", body = chunks.lines(list) } end

--- An answer that is whole; further fields of its choice and of the answer.
function chunks.whole(message, reason, of_choice, of_answer)
  message.role = "assistant"
  local choice = { index = 0, message = message, finish_reason = reason }
  for name, value in pairs(of_choice or {}) do choice[name] = value end
  local body = { choices = { choice } }
  for name, value in pairs(of_answer or {}) do body[name] = value end
  return { body = body }
end

local function refusal(message, status, more)
  local problem = { message = message, type = "invalid_request_error" }
  for name, value in pairs(more or {}) do problem[name] = value end
  return { status = status or 400, body = { error = problem } }
end

--- No room is left, or none that is said.
chunks.FULL = {
  openai = refusal("This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. "
    .. "Please reduce the length of the messages.", 400, { code = "context_length_exceeded", param = "messages" }),
  openai_code_alone = refusal("Bad request", 400, { code = "context_length_exceeded" }),
  openai_new = refusal "Your input exceeds the context window of this model. Please adjust your input and try again.",
  anthropic = { status = 400, body = { type = "error", error = { type = "invalid_request_error",
    message = "prompt is too long: 209353 tokens > 199999 maximum" } } },
  anthropic_beside_the_answer = refusal("input length and `max_tokens` exceed context limit: 199990 + 4096 > 200000, "
    .. "decrease input length or `max_tokens` and try again"),
  anthropic_bytes = { status = 413, body = { type = "error", error = { type = "request_too_large",
    message = "Request exceeds the maximum size" } } },
  vllm = { status = 400, body = { object = "error", type = "BadRequestError", code = 400, message =
    "This model's maximum context length is 4096 tokens. However, you requested 8203 tokens (4091 in the messages, 4112 in "
    .. "the completion). Please reduce the length of the messages or completion." } },
  vllm_decoder = { status = 400, body = { object = "error", code = 400,
    message = "The decoder prompt (length 21535) is longer than the maximum model length of 16384. Make sure that "
      .. "`max_model_len` is no smaller than the number of text tokens." } },
  vllm_total = { status = 400, body = { object = "error",
    message = "The prompt (total length 25938) is too long to fit into the model (context length 4096)." } },
  sglang = { status = 400, body = { object = "error", type = "BadRequestError", code = 400,
    message = "The input (61709 tokens) is longer than the model's context length (40960 tokens)." } },
  sglang_length = { status = 400, body = { object = "error",
    message = "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)." } },
  llama_cpp = { status = 400, body = { error = { code = 400, type = "exceed_context_size_error", n_prompt_tokens = 14429,
    n_ctx = 8192, message = "the request exceeds the available context size. try increasing the context size or enable "
      .. "context shift" } } },
  llama_cpp_as_500 = { status = 500, body = { error = { code = 500, type = "server_error",
    message = "Context size has been exceeded." } } },
  llama_cpp_as_200 = { body = { error = { code = 400, type = "exceed_context_size_error", message = "too long" } } },
  llama_cpp_python = { status = 400, body = { error = { message = "Requested tokens (2285) exceed context window of 2048" } } },
  lm_studio = refusal("Trying to keep the first 4321 tokens when context the overflows. However, the model is loaded with "
    .. "context length of only 4096 tokens, which is not enough."),
  ollama = { status = 400, body = { error = "prompt too long; exceeded max context length by 120 tokens" } },
  ollama_input = { status = 500, body = { error = { message = "the input length exceeds the context length" } } },
  tgi = { status = 422, body = { error_type = "validation",
    error = "Input validation error: `inputs` must have less than 1024 tokens. Given: 1168" } },
  tgi_beside_the_answer = { status = 422, body = { error_type = "validation", error =
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2040 `inputs` tokens and 1000 "
    .. "`max_new_tokens`" } },
  deepseek = refusal("This model's maximum context length is 65536 tokens. However, you requested 70142 tokens (66046 in "
    .. "the messages, 4096 in the completion). Please reduce the length of the messages or completion."),
  gemini = { status = 400, body = { { error = { code = 400, status = "INVALID_ARGUMENT",
    message = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)." } } } },
  bedrock = refusal "Input is too long for requested model.",
  xai = refusal "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
  groq = refusal "Please reduce the length of the messages or completion.",
  mistral = refusal "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
  kimi = refusal "Invalid request: Your request exceeded model token limit: 131072",
  minimax = refusal "invalid params, context window exceeds limit",
  qwen = refusal "Range of input length should be [1, 98304]",
  copilot = refusal "prompt token count of 70000 exceeds the limit of 64000",
  gateway = refusal("Provider returned error", 400, { metadata = { raw =
    '{"error":{"message":"This model\'s maximum context length is 8192 tokens."}}' } }),
  in_a_choice = { body = { choices = { { index = 0, finish_reason = "error", message = { role = "assistant", content = "" },
    error = { code = 400, message = "prompt is too long: 209353 tokens > 199999 maximum" } } } } },
  in_a_stream = { stream = true, type = "text/event-stream", body =
    'data: {"choices":[{"index":0,"delta":{"content":"I"}}]}\n\ndata: {"error":{"code":400,"message":"the request exceeds '
    .. 'the available context size"}}\n\ndata: [DONE]\n\n' },
  too_little_left = { status = 400, body = { message = "This model's maximum context length is 8192 tokens. However, you "
    .. "requested 12250 tokens (8154 in the messages, 4096 in the completion)." } },
}

--- Limits of an account, of an answer, and other faults, in similar words.
chunks.NOT_FULL = {
  tokens_a_minute = refusal("Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Requested 12000. Please "
    .. "reduce the length of the messages.", 429, { code = "rate_limit_exceeded" }),
  too_large_for_a_minute = refusal("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000, "
    .. "please reduce your message size and try again.", 413, { code = "rate_limit_exceeded" }),
  key = refusal("Incorrect API key provided", 401),
  no_tools = refusal "registry/m does not support tools",
  dead = { status = 500, body = { error = { message = "EngineCore encountered an issue" } } },
}

--- The prompt fits, and `room` tokens beside it.
chunks.SHORTER = {
  vllm = refusal("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (7000 in the "
    .. "messages, 4096 in the completion). Please reduce the length of the messages or completion."),
  vllm_new = refusal("'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 4096 "
    .. "tokens and your request has 100 input tokens (4096 > 4096 - 100)."),
  vllm_newest = refusal("This model's maximum context length is 8192 tokens. However, you requested 4096 output tokens and your "
    .. "prompt contains at least 7000 input tokens, for a total of at least 11096 tokens."),
  sglang = { status = 400, body = { object = "error", message = "Requested token count exceeds the model's maximum context "
    .. "length of 32768 tokens. You requested a total of 34096 tokens: 32000 tokens from the input messages and 4096 tokens "
    .. "for the completion." } },
  anthropic = refusal("input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease input length or "
    .. "`max_tokens` and try again"),
  tgi = { status = 422, body = { error = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: "
    .. "1244 `inputs` tokens and 4096 `max_new_tokens`" } },
  openai_answer = refusal("max_tokens is too large: 4096. This model supports at most 2048 completion tokens, whereas you "
    .. "provided 4096."),
  deepseek_answer = refusal "Invalid max_tokens value, the valid range of max_tokens is [1, 2048]",
  anthropic_answer = refusal("max_tokens: 4096 > 2048, which is the maximum allowed number of output tokens for m"),
}
for name, room in pairs { vllm = 1192, vllm_new = 3996, vllm_newest = 1192, sglang = 768, anthropic = 1000, tgi = 804,
  openai_answer = 2048, deepseek_answer = 2048, anthropic_answer = 2048 } do
  chunks.SHORTER[name].room = room
end

return chunks
