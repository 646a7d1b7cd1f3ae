"""The tasks by which the tolerance is measured: every operator of scripts/synthesis/operators.lua, heavy tails, long sums,
cancellation, half types, discontinuous functions, and tasks as suites of users have them. A row: name, forward's
expression, inputs, and further lines of the module's constructor."""

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, {names}):
{body}


def get_inputs():
    return [{inputs}]
"""

X = "torch.randn(256, 512)"
WIDE = "torch.randn(16, 65536)"

TASKS = [
    # The operators of synthetic tasks.
    ("relu", "torch.relu(x)", X),
    ("sigmoid", "torch.sigmoid(x)", X),
    ("tanh", "torch.tanh(x)", X),
    ("silu", "F.silu(x)", X),
    ("gelu", "F.gelu(x)", X),
    ("softplus", "F.softplus(x)", X),
    ("elu", "F.elu(x)", X),
    ("exp", "torch.exp(x)", X),
    ("mish", "F.mish(x)", X),
    ("abs", "torch.abs(x)", X),
    ("square", "x ** 2", X),
    ("neg", "-x", X),
    ("hardsigmoid", "F.hardsigmoid(x)", X),
    ("hardswish", "F.hardswish(x)", X),
    ("leaky_relu", "F.leaky_relu(x, 0.1)", X),
    ("clamp", "torch.clamp(x, -1, 1)", X),
    ("scale", "x * 1.5", X),
    ("shift", "x + 0.5", X),
    ("add_bias", "x + self.bias", X, "self.bias = nn.Parameter(torch.randn(512))"),
    ("mul_gain", "x * self.gain", X, "self.gain = nn.Parameter(torch.randn(512))"),
    ("residual", "torch.tanh(x) + x", X),
    ("gate", "torch.sigmoid(x) * x", X),
    ("softmax", "torch.softmax(x, dim=-1)", X),
    ("log_softmax", "torch.log_softmax(x, dim=-1)", X),
    ("layer_norm", "F.layer_norm(x, x.shape[-1:])", X),
    ("mean", "torch.mean(x, dim=-1)", "torch.randn(2048, 512)"),
    ("sum", "torch.sum(x, dim=-1)", "torch.randn(2048, 512)"),
    ("amax", "torch.amax(x, dim=-1)", "torch.randn(2048, 512)"),
    # Heavy tails, where an absolute bound sees the largest elements only.
    ("power_and_sine", "x * x * x * x * x * x + torch.sin(x)", X),
    ("hyperbolic", "torch.sinh(x) + torch.cos(x)", X),
    ("sum_of_eighth_powers", "x.pow(8).sum(1)", "torch.randn(2048, 512)"),
    ("quotient", "a / b", X + ", " + X),
    ("cube", "x ** 3", X),
    ("running_product_near_one", "torch.cumprod(1 + x / 2 - 0.25, dim=1)", "torch.rand(256, 256)"),
    # Long sums, and cancellation.
    ("softmax_wide", "torch.softmax(x, dim=-1)", WIDE),
    ("logsumexp_wide", "torch.logsumexp(x, dim=-1)", WIDE),
    ("mean_of_all", "x.mean()", "torch.rand(2048, 1024)"),
    ("mse", "F.mse_loss(a, b)", "torch.rand(1024, 1024), torch.rand(1024, 1024)"),
    ("centred", "x - x.mean(dim=1, keepdim=True)", "torch.randn(256, 512) + 1000"),
    ("variance", "x.var(dim=1)", "torch.randn(2048, 1024)"),
    ("running_sum", "torch.cumsum(x, dim=1)", "torch.randn(64, 4096)"),
    ("product_long", "a @ b", "torch.randn(128, 4096), torch.randn(4096, 128)"),
    ("norm_of_rows", "x / x.norm(dim=1, keepdim=True)", X),
    # Tasks as suites have them.
    ("linear_gelu", "F.gelu(self.linear(x))", "torch.randn(256, 512)", "self.linear = nn.Linear(512, 256)"),
    ("attention", "F.scaled_dot_product_attention(q, k, v)",
     "torch.randn(4, 8, 128, 64), torch.randn(4, 8, 128, 64), torch.randn(4, 8, 128, 64)"),
    ("convolution", "torch.relu(self.conv(x))", "torch.randn(8, 16, 32, 32)",
     "self.conv = nn.Conv2d(16, 32, 3, padding=1)"),
    ("group_norm", "self.norm(x)", "torch.randn(16, 32, 16, 16)", "self.norm = nn.GroupNorm(8, 32)"),
    ("rms_norm", "x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)", "torch.rand(16, 64, 16, 16)"),
    ("triangular_product", "torch.triu(a @ b)",
     "torch.triu(torch.randn(256, 256)), torch.triu(torch.randn(256, 256))"),
    ("cross_entropy_of_probabilities", 'F.binary_cross_entropy(a, b, reduction="none")',
     "torch.rand(256, 512) * 0.98 + 0.01, torch.rand(256, 512)"),
    ("cholesky", "torch.linalg.cholesky(a)",
     "(lambda m: m @ m.transpose(-1, -2) + 48 * torch.eye(48))(torch.randn(16, 48, 48))"),
    ("float_labels", "torch.gather(x, 1, labels.long().unsqueeze(1)).squeeze(1) * 2.0 - x.mean(dim=1)",
     "torch.randn(2048, 100), torch.randint(0, 100, (2048,)).float()", "", "x, labels"),
    ("masked_logsumexp", 'torch.logsumexp(x.masked_fill(~allowed, float("-inf")), dim=-1)',
     "torch.randn(2048, 128), (torch.rand(2048, 128) < 0.5) & (torch.arange(2048) % 64 != 0)[:, None]", "",
     "x, allowed"),
    ("hinge_loss", "torch.mean(torch.clamp(1 - a * b, min=0))",
     "torch.randn(1024, 512), torch.randint(0, 2, (1024, 512)).float() * 2 - 1"),
    ("several_outputs", '{"scaled": x * 10000, "mean": x.mean(1), "index": x.argmax(1)}', "torch.randn(2048, 256)"),
    # Functions that jump, and integers.
    ("rounded", "torch.round(x * 100) / 100", X),
    ("above_a_threshold", "torch.where(x @ w > 1, x @ w, 0.0)", "torch.randn(256, 256), torch.randn(256, 256) / 16",
     "", "x, w"),
    ("argmax_of_product", "(a @ b).argmax(dim=1)", "torch.randn(2048, 64), torch.randn(64, 128)"),
    # Half types.
    ("bf16_projection", "F.linear(x.to(torch.bfloat16), self.weight)", "torch.randn(256, 512)",
     "self.weight = nn.Parameter((torch.randn(384, 512) / 512 ** 0.5).to(torch.bfloat16))"),
    ("half_gelu", "F.gelu(x)", "torch.randn(256, 512).half()"),
    ("bf16_layer_norm", "F.layer_norm(x, x.shape[-1:])", "torch.randn(256, 512).bfloat16()"),
    ("half_sum", "(x * x).sum(1)", "torch.randn(2048, 512).half()"),
    # Refused: what an answer without the work passes.
    ("running_product_dies_out", "torch.cumprod(x, dim=1)", "torch.rand(64, 2048)"),
]


def source(row):
    _, expression, inputs, *more = row
    names = more[1] if len(more) > 1 else names_of(expression, inputs)
    return HEAD.format(init="        " + (more[0] if more and more[0] else "pass"), names=names,
                       body="        return " + expression, inputs=inputs)


def names_of(expression, inputs):
    """x for one input, a and b for two, q, k and v for three."""
    depth, count = 0, 1
    for letter in inputs:
        depth += (letter in "([") - (letter in ")]")
        count += letter == "," and depth == 0
    if count == 1:
        return "a" if "x" not in expression.replace("exp", "") else "x"
    return {2: "a, b", 3: "q, k, v"}[count]
