-- Every task as often as every other, but for those whose last two groups were all of one reward:
-- where nothing differs, group advantages are zero and nothing is learnt.

local SELDOM = 0.25

return {
  name = "flat",
  weight = function(_, seen)
    return seen.flat >= 2 and SELDOM or 1
  end,
}
