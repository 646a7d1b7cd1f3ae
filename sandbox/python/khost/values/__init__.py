"""How close is close enough: bounds by measurement, and the answers that they must refuse."""
