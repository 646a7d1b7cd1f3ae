---@meta khost.store
-- The run store: `runs/<id>/run.sqlite`. One process writes; what an `append` or `put` returned from survives a
-- killed process. Typed columns hold what people query; every other field of a record travels in the column `data`
-- and comes back as it was. Records are plain data; keys that are numbers but no list (1…n) come back as text.
--
-- Kinds and their typed fields (nested fields by dots). `stage` is always the recipe's stage.
--   stages        name*, status, result
--   tasks         id*, name, split, status, reason, family, source, eager_s, compile_s
--   trajectories  stage, step, index, task, name, policy, status, reason, reward, turn_count, token_count, seconds,
--                 script_hash, messages, tokens, mask, logprobs; `turns` (list) and `verdict` (record) are stored in
--                 their own tables in the same transaction; (stage, step, index) is unique
--   turns         trajectory, index, role, text, tool, arguments, observation, status, seconds, token_count
--   verdicts      stage, step, trajectory, task, policy, status, judge_stage, reason, detail, correct,
--                 times.{candidate_s,eager_s,compile_s}, speedup.{eager,compile}, faster.{eager,compile}, slack_s,
--                 reward, scheme, script_hash, files, evidence; a verdict nested in a trajectory is given with its own
--                 field `stage` (task, build, plan, verify, time), which becomes judge_stage
--   metrics       stage, step, name, value, script_hash
--   scripts       hash*, path, text
--   events        level, event
--   state         key*, value
-- (* the key of `put` and `get`; other kinds have an integer `id` that `append` returns)

local store = {}

---@class khost.Store
local Store = {}

---@class (exact) khost.RunInfo
---@field name? string        part of the folder's name; "run" when absent
---@field recipe? string
---@field preset? string
---@field seed? integer
---@field config? table       the merged configuration, saved with the run
---@field note? table

--- Makes `<root>/<date>-<name>/run.sqlite` and opens it for writing.
---@param root string
---@param info? khost.RunInfo
---@return khost.Store|nil, string? message, string? code
function store.create(root, info) end

--- Opens an existing run. `busy` when another process writes it.
---@param folder string
---@param options? {read_only?: boolean}
---@return khost.Store|nil, string? message, string? code
function store.open(folder, options) end

--- Makes `folder` a run of its own with everything that the run `from` has stored, under another configuration:
--- finished stages stay finished, checkpoints are shared. All or nothing. `exists` when the folder is there already.
---@param from string     folder of a run
---@param folder string   of the new run
---@param info khost.RunInfo
---@return true|nil, string? message, string? code
function store.fork(from, folder, info) end

--- The folder of a run by id, by an unambiguous part of its id or by path; the newest run without a name.
---@param root string
---@param name? string
---@return string|nil folder, string? message, string? code
function store.find(root, name) end

--- The folders of all runs under root, oldest first.
---@param root string
---@return string[]
function store.runs(root) end

--- Appends a record; returns its id. A trajectory takes the place of one with its stage, step and index whose verdict
--- is void; another one that is there already is an error.
---@param kind string
---@param record table
---@return integer|nil, string? message, string? code
function Store:append(kind, record) end

--- Writes the record of a key, whether or not it was there.
---@param kind "stages"|"tasks"|"scripts"|"state"
---@param key string
---@param value any
---@return true|nil, string? message, string? code
function Store:put(kind, key, value) end

--- A record by key or id; a trajectory comes with its `turns` and `verdict`. nil when absent.
---@param kind string
---@param key string|integer
---@return any
function Store:get(kind, key) end

---@class (exact) khost.StoreQuery
---@field where? table<string, any>   typed columns that must be equal, for example {stage = "rft", split = "train"}
---@field after? integer              only records behind this id
---@field limit? integer
---@field columns? string[]           only these typed fields; everything when absent

--- Records in the order in which they were written.
---@param kind string
---@param query? khost.StoreQuery
---@return table[]|nil, string? message, string? code
function Store:list(kind, query) end

--- Iterates over id, record without holding all of them in memory.
---@param kind string
---@param query? khost.StoreQuery
---@return fun(): integer?, table?
function Store:each(kind, query) end

---@param kind string
---@param where? table<string, any>
---@return integer|nil, string? message, string? code
function Store:count(kind, where) end

--- Runs a reading SQL statement; `?` are filled from the list.
---@param sql string
---@param parameters? any[]
---@return table[]|nil, string? message, string? code
function Store:query(sql, parameters) end

--- Runs fn in one transaction: all of its writes or, when it raises, none. fn must not wait.
---@param fn function
---@return any ...
function Store:transaction(fn) end

--- Says that a stage begins (again). Raises for a stage that was finished.
---@param name string
---@return true|nil, string? message, string? code
function Store:begin_stage(name) end

--- Says that a stage ended, with the result that a resumed run will get instead of running it.
---@param name string
---@param result? any
---@return true|nil, string? message, string? code
function Store:finish_stage(name, result) end

--- {name, status = "running" | "done", result, started_s, finished_s, attempts}, or nil when it never began.
---@param name string
---@return table|nil
function Store:stage(name) end

--- The finished trajectories of one step by their index: what a resumed run need not play again.
---@param stage string
---@param step integer
---@return table<integer, table>
function Store:trajectories(stage, step) end

--- Appends one metrics row a name, in one transaction.
---@param stage string
---@param step integer
---@param values table<string, number>
---@param script_hash? string
---@return true|nil, string? message, string? code
function Store:metrics(stage, step, values, script_hash) end

--- {id, folder, recipe, preset, seed, config, status, started_s, finished_s}
---@return table
function Store:info() end

---@return string
function Store:folder() end

--- Marks the run as "done" or "failed".
---@param status "done"|"failed"
function Store:finish(status) end

function Store:close() end

return store
