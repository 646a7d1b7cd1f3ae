---@meta khost.fs
-- Files of the host. For a workspace's files use khost.sandbox, which never follows a link out of it.

local fs = {}

---@param path string
---@return string|nil text, string? message, string? code
function fs.read(path) end

--- Whole or not at all: written beside the target, then renamed over it.
---@param path string
---@param text string
---@return true|nil, string? message, string? code
function fs.write(path, text) end

--- Names in a folder, sorted; folders end in "/".
---@param path string
---@return string[]|nil, string? message, string? code
function fs.list(path) end

--- A folder that stays the same one until it is released or collected, whatever becomes of the names that lead to it.
---@class khost.Folder
local Folder = {}

--- Where it lay when it was opened, without links.
---@return string
function Folder:path() end

--- What is asked of it afterwards fails (code "gone").
function Folder:release() end

--- Holds a folder. The last name of `path` may be a link, but the path behind that link has none: strangers may own the
--- folders on its way.
---@param path string
---@return khost.Folder|nil, string? message, string? code
function fs.folder(path) end

--- A file of a folder that a stranger filled: no link below the folder is followed, and a pipe or a device is not read.
---@param folder string|khost.Folder   a path may itself go through links, which are followed at each call
---@param path string       below it
---@param most_bytes number beyond them it is not read (code "limit")
---@return string|nil text, string? message, string? code
function fs.read_beneath(folder, path, most_bytes) end

--- Writes a file of such a folder, with the folders above it: whole or not at all, and through no link.
---@param folder string|khost.Folder
---@param path string   below it
---@param text string
---@return true|nil, string? message, string? code
function fs.write_beneath(folder, path, text) end

--- What lies in a folder of such a folder, sorted: "file a.cpp", "folder b", "link c", "other d" (a pipe, a device).
---@param folder string|khost.Folder
---@param path string   below it; "" is the folder itself
---@return string[]|nil, string? message, string? code
function fs.list_beneath(folder, path) end

---@param path string
---@return "file"|"folder"|"other"|nil
function fs.exists(path) end

--- Of a file, in bytes.
---@param path string
---@return number|nil bytes, string? message, string? code
function fs.size(path) end

--- In the place of what has the name now.
---@param from string
---@param to string
---@return true|nil, string? message, string? code
function fs.rename(from, to) end

---@param path string
---@return true|nil, string? message, string? code
function fs.mkdirs(path) end

---@param path string
---@return true|nil, string? message, string? code
function fs.remove_tree(path) end

--- Without links, "." and "..".
---@param path string
---@return string|nil, string? message, string? code
function fs.absolute(path) end

--- An environment variable.
---@param name string
---@return string|nil
function fs.env(name) end

---@param pattern string
---@return string[]
function fs.glob(pattern) end

--- The right to write a folder, until it is released, collected or the process dies, however that happens.
---@class khost.Hold
local Hold = {}

function Hold:release() end

--- Locks a file, which is made where there is none. The message names its folder; `code` is "busy" while another holds
--- it, "io" when it cannot be opened.
---@param path string
---@return khost.Hold|nil, string? message, string? code
function fs.hold(path) end

--- 64 lower-case hex digits.
---@param text string
---@return string
function fs.sha256(text) end

--- Of a file of any size, on a thread of its own.
---@async
---@param path string
---@return string|nil, string? message, string? code
function fs.sha256_file(path) end

--- The folder that holds scripts/, recipes/, skills/ and tools/.
---@return string
function fs.root() end

--- The folder that holds khost-judge and its siblings.
---@return string
function fs.build_dir() end

--- To the standard error stream, as it is.
---@param text string
function fs.eprint(text) end

return fs
