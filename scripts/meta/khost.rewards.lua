---@meta khost.rewards
-- The reward scheduler: named terms and whole schemes from scripts, with weights and schemes that follow the
-- training step. A scheme that raises, declines or leaves its range voids the episode and is counted; an episode is
-- never scored 0 by accident.

local rewards = {}

---@class khost.Curve
local Curve = {}

---@class khost.Schedule
local Schedule = {}

---@class (exact) khost.Scheme
---@field name string
---@field range { [1]: number, [2]: number }   least and greatest legal total
---@field score fun(episode: table): number|nil, (table<string, number>|string)?
--- number and named parts, or nil and a reason when the episode must not be scored

---@class (exact) khost.Term
---@field name string
---@field score fun(episode: table): number|nil, string?

---@param value number
---@return khost.Curve
function rewards.constant(value) end

--- From `from` at step 0 to `to` at step `steps`, then constant.
---@param from number
---@param to number
---@param steps integer
---@return khost.Curve
function rewards.linear(from, to, steps) end

---@param from number
---@param to number
---@param steps integer
---@return khost.Curve
function rewards.cosine(from, to, steps) end

--- Piecewise constant: the value of the greatest step that was reached, {[0] = 1, [50] = 0.5}.
---@param values table<integer, number>
---@return khost.Curve
function rewards.steps(values) end

---@param step integer
---@return number
function Curve:at(step) end

---@param name string
---@param fn fun(episode: table): number|nil, string?
---@return khost.Term
function rewards.term(name, fn) end

---@class (exact) khost.ScheduleOptions
---@field name? string
---@field range? { [1]: number, [2]: number }   legal totals of weighted terms; any finite number when absent
---@field clip? boolean                         totals outside range are moved to its border instead of voiding

--- Three forms: one scheme; weighted terms { {term, weight}, ... } where weight is a number or a Curve; or schemes by
--- step { [0] = scheme, [100] = scheme }.
---@param source khost.Scheme|table
---@param options? khost.ScheduleOptions
---@return khost.Schedule
function rewards.schedule(source, options) end

--- Scores one episode under the scheme that holds at this step. code is "void" when the scheme declined, "raised" or
--- "range" when it is at fault.
---@param episode table
---@param step integer
---@return number|nil total, table<string, number>|string parts, string? code
function Schedule:score(episode, step) end

---@param step integer
---@return table<string, number>   weight by term; {name = 1} for a whole scheme
function Schedule:weights(step) end

--- The name of the scheme that holds at this step.
---@param step integer
---@return string
function Schedule:scheme(step) end

--- How many episodes were scored, and how many were void by code and by scheme.
---@return {scored: integer, void: integer, raised: integer, range: integer, last_message: string?}
function Schedule:counts() end

--- One episode under several schemes side by side, none of them counted:
--- {name = {total?, parts?, message?, code?}}.
---@param episode table
---@param schemes khost.Scheme[]
---@return table<string, {total?: number, parts?: table, message?: string, code?: string}>
function rewards.compare(episode, schemes) end

--- Splits a list by a rubric: `rubric(item)` returns keep and, when it does not keep, a reason: a short stable word.
--- Every dropped item gets the field `reason`.
---@generic T: table
---@param list T[]
---@param rubric fun(item: T): boolean, string?
---@return T[] kept, T[] dropped
function rewards.filter(list, rubric) end

return rewards
