-- Writes small GGUF files for specs and fuzz targets.
local kit = {}

-- Little-endian, from 0 on.
local function integer(value, bytes)
  local parts = {}
  for i = 1, bytes do
    parts[i] = string.char(value % 256)
    value = math.floor(value / 256)
  end
  return table.concat(parts)
end
local function u32(value) return integer(value, 4) end
local function u64(value) return integer(value, 8) end

-- Single precision, of normal numbers above 0.
local function float(value)
  local mantissa, exponent = math.frexp(value)
  return u32((exponent + 126) * 2 ^ 23 + math.floor((mantissa * 2 - 1) * 2 ^ 23 + 0.5))
end

local function text(value) return u64(#value) .. value end

local VALUES = {
  text = function(value) return u32(8) .. text(value) end,
  number = function(value) return u32(4) .. u32(value) end,
  real = function(value) return u32(6) .. float(value) end,
  texts = function(list)
    local parts = { u32(9), u32(8), u64(#list) }
    for _, value in ipairs(list) do parts[#parts + 1] = text(value) end
    return table.concat(parts)
  end,
  numbers = function(list)
    local parts = { u32(9), u32(5), u64(#list) }
    for _, value in ipairs(list) do parts[#parts + 1] = u32(value) end
    return table.concat(parts)
  end,
}

local function padded(part) return part .. ("\0"):rep(-#part % 32) end

--- A file of keys {name, kind, value} and tensors {name, dimensions (the row's length first), ggml type, bytes}.
function kit.file(keys, tensors)
  local head, infos, data, at = { "GGUF", u32(3), u64(#tensors), u64(#keys) }, {}, {}, 0
  for _, key in ipairs(keys) do head[#head + 1] = text(key[1]) .. VALUES[key[2]](key[3]) end
  for i, tensor in ipairs(tensors) do
    infos[#infos + 1] = text(tensor[1]) .. u32(#tensor[2])
    for _, size in ipairs(tensor[2]) do infos[#infos + 1] = u64(size) end
    infos[#infos + 1] = u32(tensor[3]) .. u64(at)
    data[i] = padded(tensor[4])
    at = at + #data[i]
  end
  return padded(table.concat(head) .. table.concat(infos)) .. table.concat(data)
end

-- GPT-2's names of the 256 bytes, as UTF-8.
local function byte_names()
  local names, next_code = {}, 256
  for byte = 0, 255 do
    local code = byte
    if not ((byte >= 33 and byte <= 126) or (byte >= 161 and byte <= 172) or byte >= 174) then
      code, next_code = next_code, next_code + 1
    end
    names[#names + 1] = code < 128 and string.char(code) or string.char(192 + math.floor(code / 64), 128 + code % 64)
  end
  return names
end

--- A Qwen2 of one layer and 32 columns, matrices in Q8_0: tokens are the bytes, "ab" (256) and <|im_end|> (257), and two
--- rows of the embedding stand for none.
function kit.small_model()
  local tokens, types = byte_names(), {}
  for _, name in ipairs { "ab", "<|im_end|>", "[PAD258]", "[PAD259]" } do tokens[#tokens + 1] = name end
  for i = 1, #tokens do types[i] = i <= 257 and 1 or i == 258 and 3 or 5 end
  local keys = { { "general.architecture", "text", "qwen2" }, { "tokenizer.ggml.model", "text", "gpt2" },
    { "tokenizer.ggml.pre", "text", "qwen2" }, { "tokenizer.ggml.tokens", "texts", tokens },
    { "tokenizer.ggml.token_type", "numbers", types }, { "tokenizer.ggml.merges", "texts", { "a b" } },
    { "tokenizer.ggml.eos_token_id", "number", 257 }, { "qwen2.attention.layer_norm_rms_epsilon", "real", 1e-6 },
    { "qwen2.rope.freq_base", "real", 10000 } }
  for name, value in pairs { embedding_length = 32, block_count = 1, ["attention.head_count"] = 2,
    ["attention.head_count_kv"] = 1, feed_forward_length = 32, context_length = 256 } do
    keys[#keys + 1] = { "qwen2." .. name, "number", value }
  end
  local tensors, state = {}, 1
  local function matrix(name, rows)
    local blocks = {}
    for i = 1, rows do
      local block = { "\0\20" }  -- half-precision 2^-10
      for j = 1, 32 do
        state = (state * 1103515245 + 12345) % 2147483648
        block[j + 1] = string.char(math.floor(state / 8388608) % 256)
      end
      blocks[i] = table.concat(block)
    end
    tensors[#tensors + 1] = { name, { 32, rows }, 8, table.concat(blocks) }
  end
  local function vector(name, count, value)
    tensors[#tensors + 1] = { name, { count }, 0, float(value):rep(count) }
  end
  matrix("token_embd.weight", 260)
  vector("output_norm.weight", 32, 1)
  vector("blk.0.attn_norm.weight", 32, 1)
  vector("blk.0.ffn_norm.weight", 32, 1)
  for name, rows in pairs { attn_q = 32, attn_k = 16, attn_v = 16, attn_output = 32, ffn_gate = 32, ffn_up = 32,
    ffn_down = 32 } do
    matrix("blk.0." .. name .. ".weight", rows)
  end
  vector("blk.0.attn_q.bias", 32, 0.5)
  vector("blk.0.attn_k.bias", 16, 0.5)
  vector("blk.0.attn_v.bias", 16, 0.5)
  return kit.file(keys, tensors)
end

return kit
