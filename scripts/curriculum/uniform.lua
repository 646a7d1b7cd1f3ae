-- Every task as often as every other.

return {
  name = "uniform",
  weight = function()
    return 1
  end,
}
