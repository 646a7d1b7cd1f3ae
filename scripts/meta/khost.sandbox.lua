---@meta khost.sandbox
-- Workspaces and shells in jails. `nil, message, code` on expected trouble; code is one of timeout, gone, io, limit,
-- host, busy, bad_input, protected. Using a closed workspace raises.

local sandbox = {}

---@class khost.Workspace
local Workspace = {}

---@class khost.Shell
local Shell = {}

---@class (exact) khost.WorkspaceOptions
---@field files? table<string, string>  path -> text, written over the template; read-only inside unless writable
---@field writable? string[]            what the agent may change and snapshot takes; {"kernels", "model_new.py"}
---@field bytes? number                 of all files together, and again for /tmp; 256 MB
---@field most_files? integer           4096

---@class (exact) khost.JailLimits
---@field cpu_s? number          per process; 600
---@field memory_bytes? integer  4 GB
---@field processes? integer     64
---@field file_bytes? integer    1 GB
---@field open_files? integer    256
---@field tmp_bytes? integer     256 MB

---@class (exact) khost.ShellOptions
---@field environment? table<string, string>
---@field readable_prefixes? string[]  folders shown read-only at their own path: an interpreter, a toolkit
---@field devices? string[]
---@field limits? khost.JailLimits
---@field timeout_s? number            of a command that names none; 120

---@class (exact) khost.RunOptions
---@field timeout_s? number
---@field input? string            standard input; empty when absent
---@field output_bytes? integer    beyond it the middle is cut; 30000

---@class (exact) khost.RunResult
---@field code integer             -1 when the command was killed
---@field output string            stdout and stderr, without escapes, valid UTF-8
---@field truncated boolean
---@field timed_out boolean
---@field state_lost boolean       the shell had to be replaced
---@field wall_s number
---@field cwd string
---@field full_path string         file with the whole output when it was cut, else ""
---@field notice string            what khost did about it, else ""

---@class (exact) khost.JobOutput
---@field output string            since the last call
---@field lost_bytes integer
---@field status "running"|"completed"|"failed"|"killed"|"timed_out"
---@field code integer             -1 while it runs and when a signal ended it
---@field wall_s number

---@class (exact) khost.File
---@field path string
---@field bytes integer
---@field mtime_s number
---@field folder boolean

--- A new workspace from a template folder (relative to khost's root), nil for an empty one. Inside it is /workspace.
---@async
---@param template? string
---@param options? khost.WorkspaceOptions
---@return khost.Workspace|nil, string? message, string? code
function sandbox.workspace(template, options) end

--- Calls fn with a new workspace and closes it however fn ends. Returns what fn returns.
---@async
---@param template? string
---@param fn fun(workspace: khost.Workspace): ...
---@param options? khost.WorkspaceOptions
function sandbox.within(template, fn, options) end

--- Whether jails can be made here; the message names the remedy.
---@async
---@return boolean|nil, string? message, string? code
function sandbox.available() end

--- Text without escapes and progress bars, valid UTF-8, the middle cut beyond most_bytes.
---@param text string
---@param most_bytes? integer
---@return string
function sandbox.clean(text, most_bytes) end

--- The lines that match a regular expression (PCRE).
---@param text string
---@param pattern string
---@return string|nil, string? message, string? code
function sandbox.filter_lines(text, pattern) end

---@async
---@param options? khost.ShellOptions
---@return khost.Shell|nil, string? message, string? code
function Workspace:shell(options) end

---@param path string relative, as in all of these
---@return string|nil, string? message, string? code
function Workspace:read(path) end

--- Refuses protected files with code "protected".
---@param path string
---@param text string
---@return boolean|nil, string? message, string? code
function Workspace:write(path, text) end

--- Writes with the host's right, protected or not.
---@param path string
---@param text string
---@return boolean|nil, string? message, string? code
function Workspace:put(path, text) end

---@param path string
---@return boolean|nil, string? message, string? code
function Workspace:remove(path) end

---@param path string
---@return boolean
function Workspace:protected(path) end

---@param path string
---@return khost.File|nil, string? message, string? code
function Workspace:entry(path) end

--- Regular files below a folder, by path.
---@param under? string
---@return khost.File[]|nil, string? message, string? code
function Workspace:files(under) end

--- For each of the paths that holds a match, in order, the numbers of its matching lines.
---@param paths string[]
---@param pattern string
---@param options? {ignore_case?: boolean, multiline?: boolean}
---@return {path: string, lines: integer[]}[]|nil, string? message, string? code
function Workspace:grep(paths, pattern, options) end

--- The candidate: every file below `writable`, path -> text.
---@return table<string, string>|nil, string? message, string? code
function Workspace:snapshot() end

--- Makes the files below `writable` equal to a snapshot.
---@param files table<string, string>
---@return boolean|nil, string? message, string? code
function Workspace:restore(files) end

--- The oldest request that a program inside put into .khost/request-<n>.json; waits for one.
---@async
---@param timeout_s? number
---@return {id: integer, request: table}|nil, string? message, string? code  "timeout", "gone" when closed
function Workspace:take_request(timeout_s) end

--- Writes .khost/response-<id>.json.
---@param id integer
---@param text string
---@return boolean|nil, string? message, string? code
function Workspace:answer(id, text) end

--- Ends its shells and removes its files; returns at once.
function Workspace:close() end

---@async
---@param command string
---@param options? khost.RunOptions
---@return khost.RunResult|nil, string? message, string? code
function Shell:run(command, options) end

--- Runs in the background, in a jail of its own with the same files.
---@async
---@param command string
---@param options? {timeout_s?: number}
---@return string|nil id, string? message, string? code
function Shell:start(command, options) end

---@param id string
---@return khost.JobOutput|nil, string? message, string? code
function Shell:output(id) end

---@async
---@param id string
---@return khost.JobOutput|nil, string? message, string? code
function Shell:kill(id) end

---@return string[]
function Shell:jobs() end

function Shell:close() end

return sandbox
