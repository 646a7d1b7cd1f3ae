---@meta khost.progress
-- Progress for people: bars with rate and time left on a terminal, a plain line about every five seconds elsewhere.

local progress = {}

---@class khost.Bar
local Bar = {}

---@param title string
---@param total? integer   unknown when absent
---@return khost.Bar
function progress.begin(title, total) end

---@param n? integer     1 when absent
---@param fields? table<string, string|number>   the latest values are shown behind the bar
function Bar:add(n, fields) end

--- Text behind the bar until the next note.
---@param text string
function Bar:note(text) end

--- Ends the bar with one line that stays. A bar that is never finished ends when it is collected.
---@param text? string
function Bar:finish(text) end

return progress
