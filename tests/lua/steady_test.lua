-- lib.steady: a file that is away for a moment is what it was.
local fs = require "khost.fs"
local steady = require "lib.steady"
local t = require "tests.lua.harness"

local spec = {}

function spec.a_file_that_is_away_is_what_was_read_before_and_is_read_anew_when_it_is_back()
  local folder = "/tmp/khost-steady-spec"
  local path = folder .. "/file"
  fs.remove_tree(folder)
  assert(fs.mkdirs(folder))
  assert(fs.write(path, "one"))
  t.expect(steady.read(path, fs.read), "one")
  assert(fs.remove_tree(folder))
  t.expect(steady.read(path, fs.read), "one")
  assert(fs.mkdirs(folder))
  assert(fs.write(path, "two"))
  t.expect(steady.read(path, fs.read), "two")
  assert(fs.remove_tree(folder))
end

function spec.what_was_never_read_is_an_error_with_its_path()
  t.raises("no/such/file", steady.read, "/no/such/file", fs.read)
end

return spec
