-- The operators that synthetic tasks are composed of: how each is written in a task file, what it costs, and the
-- family that tables count it under. `%s` is the running value.
local operators = {}

-- name, torch expression, family. Constants are drawn by the composer where a `{}` stands.
operators.unary = {
  { name = "relu", text = "torch.relu(%s)", family = "cheap" },
  { name = "abs", text = "torch.abs(%s)", family = "cheap" },
  { name = "neg", text = "-%s", family = "cheap" },
  { name = "scale", text = "%s * {}", family = "cheap" },
  { name = "shift", text = "%s + {}", family = "cheap" },
  { name = "clamp", text = "torch.clamp(%s, -1.5, 1.5)", family = "cheap" },
  { name = "leaky_relu", text = "torch.nn.functional.leaky_relu(%s, 0.1)", family = "cheap" },
  { name = "square", text = "torch.square(%s)", family = "cheap" },
  { name = "sigmoid", text = "torch.sigmoid(%s)", family = "transcendental" },
  { name = "tanh", text = "torch.tanh(%s)", family = "transcendental" },
  { name = "silu", text = "torch.nn.functional.silu(%s)", family = "transcendental" },
  { name = "gelu", text = "torch.nn.functional.gelu(%s, approximate='tanh')", family = "transcendental" },
  { name = "elu", text = "torch.nn.functional.elu(%s)", family = "transcendental" },
  { name = "softplus", text = "torch.nn.functional.softplus(%s)", family = "transcendental" },
  { name = "exp", text = "torch.exp(torch.clamp(%s, -4.0, 4.0))", family = "transcendental" },
}

-- A second tensor enters: another input of the same shape, or a parameter along the last dimension.
operators.binary = {
  { name = "add_input", text = "%s + y", input = true, family = "binary" },
  { name = "mul_input", text = "%s * y", input = true, family = "binary" },
  { name = "max_input", text = "torch.maximum(%s, y)", input = true, family = "binary" },
  { name = "add_bias", text = "%s + self.bias", parameter = "bias", family = "broadcast" },
  { name = "mul_gain", text = "%s * self.gain", parameter = "gain", family = "broadcast" },
}

-- These end a chain of rows: a value for each row, or a normalised row.
operators.rows = {
  { name = "sum", text = "torch.sum(%s, dim=-1)", family = "reduction", ends = true },
  { name = "mean", text = "torch.mean(%s, dim=-1)", family = "reduction", ends = true },
  { name = "amax", text = "torch.amax(%s, dim=-1)", family = "reduction", ends = true },
  { name = "softmax", text = "torch.softmax(%s, dim=-1)", family = "softmax" },
  { name = "layer_norm", text = "torch.nn.functional.layer_norm(%s, (%s.shape[-1],))", family = "normalisation" },
}

return operators
