-- luacheck over all Lua of khost, as `./khost lint` runs it. Reading an undefined global is refused by the VM too.
std = "luajit"
codes = true
max_line_length = 120
-- Prompts, model cards and SQL in long strings: their line ends are part of the text.
max_string_line_length = false

exclude_files = {
  "tests/data/kernels",  -- hostile fixtures
  "build*",
  "runs",
}

ignore = {
  "212",  -- unused argument: a callback or a tool names all that it is given
  "431/self",  -- shadowed self: a function that builds an object calls it self, as its methods do
}

-- Stubs for editors: classes that carry annotations alone, and each signature on one line, where a reader looks for it.
files["scripts/meta"] = { ignore = { "241" }, max_line_length = false }
-- What shells and parsers are fed stays in one piece.
files["tests"] = { max_line_length = 160 }
files["tests/manual/fuzz/calls.lua"] = { max_line_length = false }
-- Assigns to a library's table, to see that the VM refuses it.
files["tests/lua/meta_test.lua"] = { ignore = { "122" } }
