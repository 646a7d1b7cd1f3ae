---@meta khost.trainer
-- In-process training: packs of trajectories, advantages, objectives and optimizer steps.
--
--   local batch = trainer.pack(episodes, { tokens = 8192 })
--   batch:fill("old_logp", actor)
--   batch:fill("values", critic)
--   batch:advantages { gamma = 1, lambda = 1, whiten = true }
--   for part in batch:split(32, 1) do
--     critic:update(part, trainer.value {}, { lr = 1e-3, max_norm = 1 })
--     actor:update(part, trainer.ppo {}, { lr = 3e-4, max_norm = 1 })
--   end

local trainer = {}

---@class khost.Trainer
local Trainer = {}

---@class khost.Batch
local Batch = {}

---@class khost.Objective

---@class khost.Tokenizer
local Tokenizer = {}

--- The shape of a fresh model. kv_heads defaults to heads, head_width to width/heads, mlp_width to 8/3 width,
--- vocabulary to the tokenizer's size. The keys of a Hugging Face config.json are accepted instead.
---@class (exact) khost.ModelShape
---@field vocabulary? integer
---@field width? integer             128
---@field layers? integer            4
---@field heads? integer             4
---@field kv_heads? integer
---@field head_width? integer
---@field mlp_width? integer
---@field positions? integer         longest sequence, 1024
---@field rope_theta? number         10000
---@field norm_epsilon? number       1e-5
---@field tied_embeddings? boolean   true
---@field qkv_bias? boolean          false; biases on q, k and v, as Qwen2 has
---@field qk_norm? boolean           false; normed q and k heads, as Qwen3 has
---@field begin_token? integer
---@field end_token? integer|integer[]  what ends a generation when `stop` is not given
---@field family? string

---@class (exact) khost.OptimizerOptions
---@field beta1? number          0.9
---@field beta2? number          0.999
---@field epsilon? number        1e-8
---@field weight_decay? number   0, decoupled, on matrices only
---@field spike_factor? number   0; skip a gradient whose norm is above this many times its running mean

---@class (exact) khost.OpenTrainer
---@field model string|khost.ModelShape     directory with config.json and safetensors (in one file or in shards) of a
---                                        Llama, Qwen2 or Qwen3 model, or a fresh model's shape
---@field tokenizer? string|khost.Tokenizer the directory's tokenizer.json when absent
---@field optimizer? khost.OptimizerOptions
---@field seed? integer        of fresh weights and of requests without a seed
---@field threads? integer     that tensor work may use, for the whole program
---@field slots? integer       sequences drawn at once, 64
---@field positions? integer   longest sequence the policy draws; the model's when absent
---@field dtype? "fp32"|"bf16"          of computation, fp32; weights and moments are kept in fp32 beside
---@field sampler_dtype? "fp32"|"bf16"  of generation, as dtype; "bf16" beside fp32 training shows their mismatch
---@field device? "cpu"|"cuda"  where weights are kept and all tensor work is done, "cpu"; "cuda" is the first visible card
---@field memory_share? number  of a card's memory that the process's tensors may hold, cached blocks included; 1
---@field recompute? boolean   compute layers again in the backward pass: less memory, more time
---@field lease? string        device lease taken shared around each piece of work; the host's when absent, "" for none

--- Opens a model for training. A checkpoint directory opens as a model too, with a fresh optimizer.
---@async
---@param options khost.OpenTrainer
---@return khost.Trainer|nil, string? message, string? code
function trainer.open(options) end

--- What `pack` reads of an episode; other fields are ignored. `mask` is 1 (or true) exactly where the sampler drew the
--- token; the first token is never one. `logprobs` has one number a token or one an action.
---@class khost.PackEpisode
---@field tokens integer[]
---@field mask (integer|boolean)[]
---@field logprobs? number[]
---@field reward number
---@field group? integer       same number for the same task

--- Packs episodes. `tokens` bounds a forward pass, padding included; `temperature` is the one the actions were drawn
--- with. Bad episodes raise with their number.
---@param episodes khost.PackEpisode[]
---@param options? {tokens?: integer, temperature?: number}
---@return khost.Batch
function trainer.pack(episodes, options) end

--- Fills a column: "old_logp" or "ref_logp" by an actor, "values" by a critic, with the weights as they are now;
--- "old_logp" by "sampler" takes the sampler's own numbers.
---@async
---@param column "old_logp"|"ref_logp"|"values"
---@param source khost.Trainer|"sampler"
---@return true|nil, string? message, string? code
function Batch:fill(column, source) end

--- Advantages over action tokens only, returns for the critic, and metrics: reward_*, advantage_* (before whitening),
--- value_*, return_mean, ev_lambda, ev_mc, length_mean, action_tokens, trajectories, empty_trajectories.
--- `lambda` is 0.95, `lambda_critic` the same when absent; `adaptive_alpha` above 0 makes the actor's lambda follow the
--- length (1 - 1/(alpha n)). `lambda_turn` (1) multiplies both where an observation stands between two actions.
--- `whiten`: true or "full" (default), "center", false or "none"; it divides by at least
--- `whiten_floor` (0), in units of the reward.
--- source = "group": reward against its group, without a critic: center = "mean" (default) or "leave_one_out"; scale =
--- "none" (default) or "std". Where several ranks train, whitening is over all of them; a rank that is gone gives code
--- gone.
---@param options? {source?: "gae"|"group", gamma?: number, lambda?: number, lambda_critic?: number, lambda_turn?: number, adaptive_alpha?: number, whiten?: boolean|string, whiten_floor?: number, center?: "mean"|"leave_one_out", scale?: "none"|"std"}
---@return table<string, number>|nil metrics, string? message, string? code
function Batch:advantages(options) end

--- Iterates over parts of `trajectories` each (0: all), every trajectory once an epoch. Columns go along.
---@param trajectories? integer
---@param epochs? integer
---@param options? {seed?: integer}
---@return fun(): khost.Batch|nil
function Batch:split(trajectories, epochs, options) end

--- A batch of some trajectories, by index from 1.
---@param trajectories integer[]
---@return khost.Batch
function Batch:select(trajectories) end

--- Scores without a step. A critic: value_loss, ev_lambda, ev_mc and the batch's metrics, on returns that are there or
--- on the terminal rewards. An actor: nll, mean over action tokens.
---@async
---@param network khost.Trainer
---@return table<string, number>|nil metrics, string? message, string? code
function Batch:evaluate(network) end

---@return table<string, number>
function Batch:metrics() end

--- One number a token in trajectory order, or nil when the column is not filled.
---@param name "sampler_logp"|"old_logp"|"ref_logp"|"values"|"advantages"|"returns"|"mc_returns"
---@return number[]|nil
function Batch:column(name) end

--- Rejection fine-tuning: negative log-likelihood of the actions; "sum" a trajectory (the paper's Eq. 2) or an
--- aggregate name such as "token-mean".
---@param options? {reduce?: string, entropy?: number}
---@return khost.Objective
function trainer.rft(options) end

--- Half the squared error to the returns (Eq. 4); `clip` keeps values near the old ones, 0 is off.
---@param options? {clip?: number, aggregate?: string}
---@return khost.Objective
function trainer.value(options) end

--- Clipped policy objective (Eq. 5). aggregate: "seq-mean-token-mean" (default), "token-mean", "seq-mean-token-sum",
--- "seq-mean-token-sum-norm" (with horizon), "token-sum", "prompt-mean".
---@class (exact) khost.PpoOptions
---@field clip_low? number        0.2
---@field clip_high? number       0.28
---@field dual_clip? number       0 is off; the field's usual value is 3
---@field kl? number              weight of k3 against ref_logp
---@field entropy? number         weight of the entropy bonus
---@field importance_cap? number  weight tokens by min(old/sampler, cap)
---@field horizon? number
---@field aggregate? string

---@param options? khost.PpoOptions
---@return khost.Objective
function trainer.ppo(options) end

--- `lr` is the rate after `warmup` steps, over which it rises; by rule "linear" or "cosine" it falls to `floor` times
--- `lr` at step `steps`. Steps are those that the optimizer has taken, also before a resume.
---@class (exact) khost.StepOptions
---@field lr number
---@field max_norm? number    0 does not clip
---@field warmup? integer     0
---@field rule? "constant"|"linear"|"cosine"
---@field steps? integer
---@field floor? number       0

--- One optimizer step over the whole batch: accumulates over micro-batches under global denominators (those of all
--- ranks), then steps, or skips a gradient that is not finite or, with spike_factor, far above its recent norms. Waits
--- for requests of the policy that are in flight. Metrics: loss, norm, lr, skipped, skipped_total, skipped_nonfinite,
--- skipped_spike, step, version, tokens, tokens_per_s, seconds; for an actor entropy, approx_kl, kl_k3, clip_frac,
--- clip_frac_low, clip_frac_high, dual_clip_frac, ratio_*, ess, sampler_gap_mean, _max, _k1, _k3, _chi2.
---@async
---@param batch khost.Batch
---@param objective khost.Objective
---@param options khost.StepOptions
---@return table<string, number>|nil metrics, string? message, string? code
function Trainer:update(batch, objective, options) end

--- The policy that draws with this actor's weights; always the same one.
---@return khost.Policy
function Trainer:policy() end

--- A critic: this network's transformer as it is now under a value head that says 0, with an optimizer of its own.
---@return khost.Trainer
function Trainer:critic() end

---@return khost.Tokenizer|nil
function Trainer:tokenizer() end

--- Writes weights, optimizer, tokenizer, random state and a note; the directory appears whole or not at all. What the
--- model's folder had beside (chat template, generation config, special tokens, other keys of config.json) is carried
--- over, so that other programs serve the saved folder as they did the first.
--- With optimizer = false it has no moments: the weights are copied first, and updates go on while the copy is written.
---@async
---@param directory string
---@param note? table
---@param options? {optimizer?: boolean}   true
---@return true|nil, string? message, string? code
function Trainer:save(directory, note, options) end

--- Restores a checkpoint of the same shape after checking every file's hash. The note, or true. With optimizer = false
--- only weights are taken, and the optimizer begins anew.
---@async
---@param directory string
---@param options? {optimizer?: boolean}   true
---@return table|true|nil note, string? message, string? code
function Trainer:load(directory, options) end

--- Gives up this handle: whatever is called on it then raises. Its policy and its critics go on; the weights are freed
--- when handles of the policy are closed, or collected, too.
function Trainer:close() end

---@return {role: "actor"|"critic", step: integer, parameters: integer}
function Trainer:stats() end

--- Learns a byte-level BPE. Special tokens get the ids 0, 1, …; `vocab` counts them, the 256 bytes and the merges.
---@async
---@param texts string[]
---@param options? {vocab?: integer, specials?: string[]}
---@return khost.Tokenizer|nil, string? message, string? code
function trainer.train_tokenizer(texts, options) end

--- Joins the processes that torchrun or srun started beside this one (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or
--- SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_NODELIST); alone it answers rank 0 of 1. Call it before the first trainer
--- opens:
--- every rank then opens the same model, packs its own episodes, and calls update and save as often as the others. Sums
--- of gradients and denominators cross between ranks, each keeps a slice of the optimizer's moments, rank 0 writes
--- checkpoints.
--- Groups of episodes must not be spread over ranks. With `whole` every rank packs the same episodes instead and does
--- the same to each batch: fill, update and evaluate pass over a part on each rank and leave the whole on all, with the
--- metrics of one process. `size`, `rank` (from 0) and `port` join processes of this machine without a launcher.
--- Of a machine's cards each rank sees one, by LOCAL_RANK or
--- SLURM_LOCALID (its rank where neither is set); what cards hold crosses by NCCL. A rank that is gone gives the others
--- code gone.
---@async
---@param options? {whole?: boolean, size?: integer, rank?: integer, port?: integer}
---@return {rank: integer, size: integer}|nil, string? message, string? code
function trainer.ranks(options) end

--- The text of rank 0, on every rank: the others wait for it.
---@async
---@param text? string   of rank 0
---@return string|nil, string? message, string? code
function trainer.tell(text) end

--- A port of this machine that nobody listens at.
---@return integer
function trainer.free_port() end

--- Makes a model folder of a GGUF file (Llama, Qwen2, Qwen3; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K,
--- Q5_K, Q6_K), with weights in fp32. The folder appears whole or not at all.
---@async
---@param path string
---@param directory string
---@return true|nil, string? message, string? code
function trainer.convert_gguf(path, directory) end

---@param path string   a tokenizer.json
---@return khost.Tokenizer|nil, string? message, string? code
function trainer.tokenizer(path) end

--- `special`: whether text such as <|im_end|> becomes its token. Leave it off for text that the model did not write.
---@param text string
---@param options? {special?: boolean}
---@return integer[]
function Tokenizer:encode(text, options) end

--- `special`: write special tokens as text instead of leaving them out.
---@param tokens integer[]
---@param options? {special?: boolean}
---@return string
function Tokenizer:decode(tokens, options) end

---@param path string
---@return true|nil, string? message, string? code
function Tokenizer:save(path) end

---@return integer
function Tokenizer:size() end

---@param text string
---@return integer|nil id
function Tokenizer:special(text) end

return trainer
