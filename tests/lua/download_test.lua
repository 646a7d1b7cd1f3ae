-- Downloads against a server on this machine that does what servers and networks do.
local download = require "lib.download"
local fs = require "khost.fs"
local http = require "khost.http"
local json = require "khost.json"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local t = require "tests.lua.harness"

local spec = {}

local SIZE = 300000
local SHA256 = "b1cf7538cf80d01efe3e0b8e45dc930048a138c7b6f8c4aff08f478e4695e631"

local function match(pattern, text)
  t.is_true(tostring(text):find(pattern) ~= nil, ("expected '%s' in: %s"):format(pattern, tostring(text)))
end

-- fn(server, fetch, path): fetch(mode, changes) downloads to `path` in a folder of its own.
local function with(fn)
  local folder = "/tmp/khost-download-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local path = folder .. "/model.gguf"
  local ok, message = pcall(server_kit.with, function(server)
    fn(server, function(mode, changes)
      local wanted = { url = ("%s/%s/file"):format(server.base, mode), path = path, bytes = SIZE, sha256 = SHA256,
        pause_s = 0.01 }
      for key, value in pairs(changes or {}) do wanted[key] = value end
      return download.fetch(wanted)
    end, path)
  end, "files.py")
  fs.remove_tree(folder)
  if not ok then error(message, 0) end
end

local function seen(server, mode) return json.decode(http.request { url = server.base .. "/seen" }.body)[mode] end

local function is_whole(path)
  t.expect(fs.sha256_file(path), SHA256)
  t.expect(fs.exists(path .. ".part"), nil)
end

function spec.a_file_comes_once()
  with(function(server, fetch, path)
    t.expect(fetch("whole"), true)
    is_whole(path)
    t.expect(fetch("whole"), true)
    t.expect(#seen(server, "whole"), 1)
  end)
end

function spec.a_cut_download_goes_on_where_it_ended()
  with(function(server, fetch, path)
    t.expect(fetch("cut"), true)
    is_whole(path)
    t.expect(seen(server, "cut"), { "", "bytes=100000-" })
  end)
end

function spec.a_later_run_goes_on_where_an_earlier_one_ended()
  with(function(server, fetch, path)
    local got = http.request { url = server.base .. "/whole/file" }.body
    assert(fs.write(path .. ".part", got:sub(1, 123456)))
    t.expect(fetch("whole"), true)
    is_whole(path)
    t.expect(seen(server, "whole")[2], "bytes=123456-")
  end)
end

function spec.a_server_without_ranges_begins_anew()
  with(function(_, fetch, path)
    t.expect(fetch("no_ranges"), true)
    is_whole(path)
  end)
end

function spec.a_connection_that_brings_nothing_is_given_up_and_what_came_is_kept()
  with(function(_, fetch, path)
    assert(fs.write(path .. ".part", ("\0"):rep(1000)))
    local ok, message = fetch("stubborn")
    t.expect(ok, nil)
    match("5 attempts brought nothing new.*kept in .*model%.gguf%.part", message)
    t.expect(fs.size(path .. ".part"), 1000)
  end)
end

function spec.another_file_is_refused_and_deleted()
  with(function(_, fetch, path)
    local function refused(mode)
      local ok, message = fetch(mode)
      t.expect(ok, nil)
      t.expect({ fs.exists(path), fs.exists(path .. ".part") }, {})
      return message
    end
    match("/other/file has SHA%-256 %x+, expected " .. SHA256 .. ".*deleted", refused("other"))
    match("/long/file sends more than the 300000 bytes expected", refused("long"))
    match("/short/file sent a file of 299999 bytes, expected 300000", refused("short"))
  end)
end

function spec.refusals_are_told_apart()
  with(function(_, fetch)
    match("/404/file answered 404: there is no such file", select(2, fetch("404")))
    match("/403/file answered 403: the server does not let this machine have it", select(2, fetch("403")))
    match("/401/file answered 401: the server asks who you are", select(2, fetch("401")))
    match("redirects more than 5 times", select(2, fetch("loop")))
    match("connect", select(2, fetch("x", { url = "http://127.0.0.1:1/file" })))
  end)
end

function spec.redirects_and_busy_servers_are_no_failures()
  with(function(server, fetch, path)
    for _, mode in ipairs { "moved", "relative", "busy" } do
      fs.remove_tree(path)
      t.expect(fetch(mode), true)
      is_whole(path)
    end
    t.expect(#seen(server, "busy"), 2)
  end)
end

function spec.a_file_that_cannot_be_written_is_named()
  with(function(_, fetch)
    match("/nowhere/at/all", select(2, fetch("whole", { path = "/nowhere/at/all" })))
  end)
end

return spec
