---@meta khost.terminal
-- Whether a person reads what is printed, and long texts through a pager.

local terminal = {}

--- Whether standard output is a terminal.
---@return boolean
function terminal.interactive() end

--- Whether colours are wanted: on a terminal, unless NO_COLOR is set; elsewhere only with CLICOLOR_FORCE.
---@return boolean
function terminal.colour() end

--- Columns; 100 when that is not known.
---@return integer
function terminal.width() end

--- Prints a text: on a terminal through $PAGER ("less -RFX"; nothing when it is empty), elsewhere as it is.
---@async
---@param text string
---@return true
function terminal.page(text) end

--- Text of strangers as a terminal may show it: control characters (but line ends and tabs), marks of direction and bytes
--- that are no UTF-8 are written out, as \u001b. log.print, fs.eprint and the log do so by themselves; `page` does not.
---@param text string
---@return string
function terminal.plain(text) end

return terminal
