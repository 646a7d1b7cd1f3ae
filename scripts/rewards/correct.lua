-- Correctness alone: 1 for a correct kernel, -1 for any other. What remains of the milestone reward when speed is not
-- paid.

local terms = require "rewards.terms"

return {
  name = "correct",
  range = { -1, 1 },
  score = terms.correct.score,
}
