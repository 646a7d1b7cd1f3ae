-- Rows of Parquet files, by pyarrow, which is installed when it is first needed.

local cache = require "lib.cache"
local fs = require "khost.fs"
local log = require "khost.log"
local machine = require "khost.machine"

local parquet = {}

local PARQUET_SECONDS, PARQUET_BYTES = 600, 512 * 2 ^ 20
local NO_ARROW = 3  -- of parquet_to_jsonl.py

-- Where pyarrow is put that the Python of khost does not have; of the cache of its other parts.
local function arrow_folder()
  return cache.folder "pyarrow"
end

local function read_parquet(python, path, most_bytes)
  return machine.run({ python, "-I", fs.root() .. "/scripts/suites/parquet_to_jsonl.py", path, arrow_folder() },
    { timeout_s = PARQUET_SECONDS, output_bytes = most_bytes })
end

local function install_arrow(python)
  log.print(("installing pyarrow in %s"):format(arrow_folder()))
  local done, message = machine.run({ python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet",
    "--upgrade", "--target", arrow_folder(), "pyarrow" }, { timeout_s = PARQUET_SECONDS })
  return done and done.code == 0, message or done and done.output:match("([^\n]+)%s*$")
end

--- The rows of a Parquet file as JSON lines.
---@async
---@param path string
---@param most_bytes? integer   of the lines (512 MiB)
---@return string|nil, string? message, string? code
function parquet.rows(path, most_bytes)
  most_bytes = most_bytes or PARQUET_BYTES
  local python = fs.env("KHOST_PYTHON") or "python3"
  local done, message = read_parquet(python, path, most_bytes)
  if done and done.code == NO_ARROW then
    local ok, why = install_arrow(python)
    if not ok then
      return nil, ("%s: reading Parquet needs pyarrow, which %s does not have and which could not be installed (%s). "
        .. "Remedy: %s -m pip install --target %s pyarrow, or convert the file to JSON lines"):format(path, python,
        why or "no reason given", python, arrow_folder()), "host"
    end
    done, message = read_parquet(python, path, most_bytes)
  end
  if not done then
    return nil, message, "io"
  end
  if done.code ~= 0 then
    return nil, ("%s: %s"):format(path, done.output:match("([^\n]+)%s*$") or "cannot be read"), "bad_input"
  end
  if #done.output >= most_bytes then  -- what is beyond was cut off, perhaps between two rows
    return nil, ("%s: its rows take more than %.0f MiB as JSON lines: split it"):format(path, most_bytes / 2 ^ 20),
      "limit"
  end
  return done.output
end

return parquet
