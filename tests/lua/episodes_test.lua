-- A small number of what tests/manual/long/episodes.lua does with 256 episodes.
local episodes = require "tests.manual.long.episodes"
local t = require "tests.lua.harness"

local spec = {}

function spec.episodes_at_once_lose_no_output_and_leave_nothing()
  t.expect(episodes.run { "--episodes", "12" }, 0)
end

return spec
