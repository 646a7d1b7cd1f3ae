---@meta khost.log
-- Structured log: events with fields, as lines on the terminal and as JSON lines in the run's folder; metrics as
-- TensorBoard event files.

local log = {}

---@class khost.Logger
local Logger = {}

---@class (exact) khost.LogOptions
---@field folder? string   writes <folder>/log.jsonl and <folder>/tensorboard/ from now on
---@field level? "debug"|"info"|"warn"|"error"   least level shown on the terminal; "info"

---@param options khost.LogOptions
---@return true|nil, string? message, string? code
function log.open(options) end

---@param event string   a short stable word
---@param fields? table
function log.debug(event, fields) end

---@param event string
---@param fields? table
function log.info(event, fields) end

---@param event string
---@param fields? table
function log.warn(event, fields) end

---@param event string
---@param fields? table
function log.error(event, fields) end

--- A logger that adds these fields to every event.
---@param fields table
---@return khost.Logger
function log.with(fields) end

--- One scalar for TensorBoard; nothing before `log.open` named a folder.
---@param name string   "stage/name" groups the curves of a stage
---@param value number
---@param step integer
function log.metric(name, value, step) end

--- Text for people on standard output, without time or level; a progress bar on the terminal steps aside.
---@param text string
function log.print(text) end

---@param event string
---@param fields? table
function Logger:debug(event, fields) end

---@param event string
---@param fields? table
function Logger:info(event, fields) end

---@param event string
---@param fields? table
function Logger:warn(event, fields) end

---@param event string
---@param fields? table
function Logger:error(event, fields) end

return log
