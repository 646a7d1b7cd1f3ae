-- khost.fs and khost.json.
local fs = require "khost.fs"
local json = require "khost.json"
local machine = require "khost.machine"
local t = require "tests.lua.harness"

local ROOT = "/tmp/khost-fs-spec"
local spec = {}

function spec.write_read_list_and_remove()
  fs.remove_tree(ROOT)
  t.is_true(fs.mkdirs(ROOT .. "/a/b"))
  t.is_true(fs.write(ROOT .. "/a/x.txt", "one\0two"))
  t.expect(fs.read(ROOT .. "/a/x.txt"), "one\0two")
  t.expect(fs.list(ROOT .. "/a"), { "b/", "x.txt" })
  t.expect({ fs.exists(ROOT), fs.exists(ROOT .. "/a/x.txt"), fs.exists(ROOT .. "/no") }, { "folder", "file" })
  t.expect(fs.glob(ROOT .. "/a/*.txt"), { ROOT .. "/a/x.txt" })
  t.expect(fs.absolute(ROOT .. "/a/../a/x.txt"), ROOT .. "/a/x.txt")
  t.is_true(fs.remove_tree(ROOT))
  local text, message, code = fs.read(ROOT .. "/a/x.txt")
  t.expect({ text == nil, code }, { true, "io" })
  t.is_true(message:find("No such file"))
end

function spec.a_file_of_a_strangers_folder_is_written_through_no_link()
  fs.remove_tree(ROOT)
  t.is_true(fs.mkdirs(ROOT .. "/mine") and fs.mkdirs(ROOT .. "/other"))
  t.is_true(fs.write_beneath(ROOT .. "/mine", "a/b/x.txt", "one"))
  t.is_true(fs.write_beneath(ROOT .. "/mine", "a/b/x.txt", "two"))
  t.expect(fs.read(ROOT .. "/mine/a/b/x.txt"), "two")
  t.expect(machine.run({ "ln", "-s", ROOT .. "/other", ROOT .. "/mine/link" }).code, 0)
  for _, path in ipairs { "link/x.txt", "../other/x.txt", "/etc/x.txt", "link", "" } do
    local done, message, code = fs.write_beneath(ROOT .. "/mine", path, "three")
    t.is_true(not done and message and code == "bad_input", ("%s: %s %s"):format(path, tostring(message), tostring(code)))
  end
  t.expect(fs.list(ROOT .. "/other"), {})
  fs.remove_tree(ROOT)
end

function spec.a_held_folder_stays_the_same_whatever_its_names_lead_to()
  fs.remove_tree(ROOT)
  assert(fs.mkdirs(ROOT .. "/home/work") and fs.mkdirs(ROOT .. "/other"))
  assert(fs.write(ROOT .. "/other/secret", "s"))
  machine.run { "ln", "-s", "home/work", ROOT .. "/link" }
  local held, again = assert(fs.folder(ROOT .. "/link")), assert(fs.folder(ROOT .. "/home/work/"))
  t.expect({ held:path(), again:path() }, { ROOT .. "/home/work", ROOT .. "/home/work" })
  t.is_true(fs.write_beneath(held, "a/x", "one"))
  machine.run { "mv", ROOT .. "/home/work", ROOT .. "/home/away" }
  machine.run { "ln", "-s", ROOT .. "/other", ROOT .. "/home/work" }
  t.is_true(fs.write_beneath(held, "a/x", "two"))
  t.expect({ fs.read_beneath(held, "a/x", 9), fs.read(ROOT .. "/home/away/a/x") }, { "two", "two" })
  t.expect({ fs.list_beneath(held, ""), fs.list(ROOT .. "/other") }, { { "folder a" }, { "secret" } })
  t.expect({ (fs.read_beneath(held, "secret", 9)) }, {})
  -- A link behind the link is one that nobody vouches for.
  local none, message, code = fs.folder(ROOT .. "/link")
  t.expect({ none, code }, { nil, "bad_input" })
  t.is_true(message:find(ROOT .. "/home/work: symbolic links are not followed", 1, true), message)
  held:release()
  t.expect({ select(3, fs.list_beneath(held, "")) }, { "gone" })
  t.expect(fs.list_beneath(again, ""), { "folder a" })
  t.expect({ select(3, fs.folder(ROOT .. "/none")), select(3, fs.folder(ROOT .. "/other/secret")) }, { "io", "io" })
  t.expect({ fs.folder("."):path(), fs.folder("/"):path() }, { fs.absolute ".", "/" })
  t.raises("Folder expected", fs.list_beneath, 3, "")
  fs.remove_tree(ROOT)
end

function spec.a_folder_is_held_by_one()
  assert(fs.mkdirs(ROOT))
  local held = assert(fs.hold(ROOT .. "/lock"))
  local again, message, code = fs.hold(ROOT .. "/lock")
  t.expect({ again, message, code }, { nil, "another process is writing " .. ROOT, "busy" })
  held:release()
  assert(fs.hold(ROOT .. "/lock")):release()
  t.expect({ select(3, fs.hold(ROOT .. "/no/lock")) }, { "io" })
  assert(fs.remove_tree(ROOT))
end

function spec.sha256_is_the_published_one()
  t.expect(fs.sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
end

function spec.env_and_roots()
  t.is_true(fs.env("PATH"))
  t.expect(fs.env("KHOST_SURELY_NOT_SET"), nil)
  t.expect(fs.exists(fs.root() .. "/scripts"), "folder")
end

function spec.json_round_trip()
  local text = json.encode { a = { 1, 2.5, true }, b = "x" }
  t.expect(json.decode(text), { a = { 1, 2.5, true }, b = "x" })
  t.expect(json.encode(json.list()), "[]")
  t.expect(json.decode("[null]")[1], json.null)
  t.expect(select(3, json.decode("{")), "bad_input")
  t.raises("plain data expected", json.encode, { f = print })
end

return spec
