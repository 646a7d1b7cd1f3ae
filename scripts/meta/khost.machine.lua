---@meta khost.machine
-- Facts about this machine, and running one of its programs to learn more. Nothing of a candidate is run here:
-- that is what jails are for.

local machine = {}

---@class (exact) khost.MachineFacts
---@field user_id integer
---@field cores? integer                  that this process may use
---@field cores_online integer
---@field memory_bytes? number
---@field memory_available_bytes? number
---@field memory_limit_bytes? number      of the control group, when there is one
---@field disk_free_bytes? number
---@field kernel? string
---@field machine? string
---@field host? string

---@param path? string   whose disk is meant; khost's own folder when absent
---@return khost.MachineFacts
function machine.facts(path) end

--- Runs a program of this machine and waits for it; standard output and error come together.
---@async
---@param argv string[]
---@param options? {timeout_s?: number, output_bytes?: integer}
---@return {code: integer, output: string, wall_s: number}|nil, string? message, string? code
function machine.run(argv, options) end

return machine
