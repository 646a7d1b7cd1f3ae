-- A schedule by step: the first steps pay for correctness alone, later ones the milestones. A model that seldom writes
-- a right kernel learns that first.

local FIRST_STEPS = 20

return {
  [0] = require "rewards.correct",
  [FIRST_STEPS] = require "rewards.milestone",
}
