-- The page as one file: style, scripts and data inside it, nothing from outside. What strangers wrote reaches it as
-- JSON alone, of which the scripts make text nodes; a policy in the page lets no other script run.

local collect = require "report.collect"
local fs = require "khost.fs"
local json = require "khost.json"
local library = require "report.library"
local log = require "khost.log"
local markup = require "lib.markup"
local sched = require "khost.sched"
local terminal = require "khost.terminal"

local page = {}

-- In the order in which they are run.
local SCRIPTS = { "dom.js", "code.js", "charts.js", "overview.js", "curves.js", "kernels.js", "reader.js",
  "trajectories.js", "main.js" }

--- JSON that may stand in a script element: no "<", so neither "</script>" nor "<!--" can occur in it.
---@param value any
---@return string
function page.json(value)
  return (json.encode(value):gsub("<", "\\u003c"))
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- Base64 of bytes in hexadecimal digits.
local function base64(hex)
  local out, bits, value = {}, 0, 0
  for digit in hex:gmatch "%x" do
    value, bits = value * 16 + tonumber(digit, 16), bits + 4
    if bits >= 6 then
      local rest = 2 ^ (bits - 6)
      local index = math.floor(value / rest)
      out[#out + 1] = DIGITS:sub(index + 1, index + 1)
      value, bits = value % rest, bits - 6
    end
  end
  if bits > 0 then
    local index = value * 2 ^ (6 - bits)
    out[#out + 1] = DIGITS:sub(index + 1, index + 1)
  end
  return table.concat(out) .. ("="):rep(-#out % 4)
end

local function asset(name)
  return assert(fs.read(("%s/scripts/report/assets/%s"):format(fs.root(), name)))
end

local function script_element(text)
  -- A library's own "</script>" would end the element; inside a string "<\/" means the same.
  text = text:gsub("</script", "<\\/script")
  return "<script>" .. text .. "</script>\n", ("'sha256-%s'"):format(base64(fs.sha256(text)))
end

local NO_SCRIPT = "<noscript><p>This page draws its data with a script that it carries; scripts are switched off. "
  .. "<code>khost show RUN</code> prints the same tables.</p></noscript>\n"

local TRAJECTORIES = 600e3  -- bytes of a page with several runs

local function budget(runs)
  return math.min(collect.BUDGET, TRAJECTORIES / math.max(1, runs))
end

--- The data of a page of runs.
---@param stores khost.Store[]
---@param live? {every_s: number, url?: string}   of a page that follows a run; without an url it loads itself again
---@return {runs: table[], generated_s: number, live?: table}
function page.data(stores, live)
  local list = {}
  for index, store in ipairs(stores) do
    list[index] = collect.run(store, { budget = budget(#stores) })
  end
  return { runs = json.list(list), generated_s = sched.wall_clock(), live = live }
end

--- The page as text.
---@param data table       of page.data
---@param charts? string   Chart.js; without it charts are tables
---@return string
function page.html(data, charts)
  local title, elements, hashes = {}, {}, {}
  for index, run in ipairs(data.runs) do
    title[index] = run.id
  end
  local function add(text)
    elements[#elements + 1], hashes[#hashes + 1] = script_element(text)
  end
  if charts then
    add(charts)
  end
  for _, name in ipairs(SCRIPTS) do
    add(asset(name))
  end
  local policy = ("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src %s%s"):format(
    table.concat(hashes, " "), data.live and data.live.url and "; connect-src 'self'" or "")
  return table.concat { '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n',
    '<meta http-equiv="Content-Security-Policy" content="', policy, '">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n<title>',
    markup.escape(table.concat(title, ", ")), "</title>\n<style>\n", asset "colours.css", asset "page.css",
    "</style></head>\n<body>\n", NO_SCRIPT,
    '<div id="page"></div>\n<script type="application/json" id="data">', page.json(data), "</script>\n",
    table.concat(elements), "</body></html>\n" }
end

--- The page of runs with its charts, or with tables where Chart.js cannot be had.
---@async
---@param stores khost.Store[]
---@param live? {every_s: number, url?: string}
---@return string
function page.of(stores, live)
  local charts, message = library.text()
  local data = page.data(stores, live)
  if charts then
    data.library = "Chart.js " .. library.VERSION
  else
    data.missing = terminal.plain(message)
    log.warn("charts_are_tables", { why = message })
  end
  return page.html(data, charts)
end

--- Writes the page of runs to a file, whole or not at all.
---@async
---@param path string
---@param stores khost.Store[]
---@param live? {every_s: number}
---@return true|nil, string? message
function page.write(path, stores, live)
  return fs.write(path, page.of(stores, live))
end

return page
