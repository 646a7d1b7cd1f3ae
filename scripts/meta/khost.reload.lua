---@meta khost.reload
-- Scripts that change while a run goes on. A generation is one complete evaluation of an entry and all it requires;
-- a change builds a new one, checks it and swaps once. On any error the last good generation stays.

local reload = {}

---@class khost.Handle
local Handle = {}

--- Builds the first generation at once. `entry` is a module's name or a path that ends in ".lua".
---@param entry string
---@param options? {check?: fun(value: any): boolean, string?}
---@return khost.Handle|nil, string? message, string? code
function reload.open(entry, options) end

--- Plain data that outlives a reload. `migrate(data, version)` is called when the version differs.
---@param name string
---@param options {version: integer, init: fun(): table, migrate?: fun(data: table, version: integer): table}
---@return table
function reload.state(name, options) end

--- All states as plain data, for a checkpoint.
---@return table
function reload.save_states() end

---@param saved table|nil
function reload.load_states(saved) end

--- Looks for changes; the current value and its generation. Ask once a step.
---@return any value, integer generation
function Handle:get() end

--- Why the last attempt was refused, with file and line; nil when it was not.
---@return string|nil
function Handle:failure() end

--- SHA-256 over the files of the current generation.
---@return string
function Handle:hash() end

--- The files of the current generation.
---@return {path: string, text: string, hash: string}[]
function Handle:sources() end

--- fn(value, generation) after each swap.
---@param fn fun(value: any, generation: integer)
function Handle:on_change(fn) end

return reload
