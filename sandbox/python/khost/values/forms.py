"""Functions of one element in the forms of textbooks, as plain kernels have them. They lose digits near zero and far out that
PyTorch's own (expm1, log1p) keep: an error of one rounding of the number 1, which is no fault where a task does not ask
for expm1 or log1p by name."""

import torch


def with_defaults(args, defaults):
    """The first argument and the numbers behind it, those that are left out from `defaults`."""
    return [*args, *defaults[len(args) - 1:]]


def wide(x):
    """In the precision in which a kernel computes: float32, or float64 for a task of that."""
    return x if x.dtype == torch.float64 else x.float()


class TextbookForms:
    """Operators by other forms, for a dispatch mode: `exponential` is the mode's own exp. Each returns the dtype of its
    input."""

    @classmethod
    def named(cls):
        """Names of the operators that have another form here."""
        return {name[len("op_"):] for name in vars(TextbookForms) if name.startswith("op_")}

    def op_elu(self, func, args, kwargs):
        x, alpha, scale, input_scale = with_defaults(args, (1.0, 1.0, 1.0))
        y = torch.where(x > 0, wide(x), alpha * (self.exponential(wide(x) * input_scale) - 1))
        return (y * scale).to(x.dtype)

    def op_celu(self, func, args, kwargs):
        x, alpha = with_defaults(args, (1.0,))
        return torch.where(x > 0, wide(x), alpha * (self.exponential(wide(x) / alpha) - 1)).to(x.dtype)

    def op_tanh(self, func, args, kwargs):
        return (2 / (1 + self.exponential(-2 * wide(args[0]))) - 1).to(args[0].dtype)

    def op_sigmoid(self, func, args, kwargs):
        return (0.5 * torch.tanh(0.5 * wide(args[0])) + 0.5).to(args[0].dtype)

    def op_silu(self, func, args, kwargs):
        x = wide(args[0])
        return (x * (0.5 * torch.tanh(0.5 * x) + 0.5)).to(args[0].dtype)

    def op_glu(self, func, args, kwargs):
        x, gate = args[0].chunk(2, args[1] if len(args) > 1 else -1)
        return (wide(x) * (0.5 * torch.tanh(0.5 * wide(gate)) + 0.5)).to(x.dtype)

    def op_softplus(self, func, args, kwargs):
        x, beta, threshold = with_defaults(args, (1.0, 20.0))
        scaled = wide(x) * beta
        return torch.where(scaled > threshold, wide(x), (1 + self.exponential(scaled)).log() / beta).to(x.dtype)

    def op_mish(self, func, args, kwargs):
        x = wide(args[0])
        return (x * torch.tanh((1 + self.exponential(x)).log())).to(args[0].dtype)

    def op_log_sigmoid_forward(self, func, args, kwargs):
        x = wide(args[0])
        return -(1 + self.exponential(-x)).log().to(args[0].dtype), func(*args, **kwargs)[1]

    def op_asinh(self, func, args, kwargs):
        x = wide(args[0])
        return (x + (x * x + 1).sqrt()).log().to(args[0].dtype)

    def op_atanh(self, func, args, kwargs):
        x = wide(args[0])
        return (0.5 * ((1 + x) / (1 - x)).log()).to(args[0].dtype)

    def op_sinh(self, func, args, kwargs):
        x = wide(args[0])
        return (0.5 * (self.exponential(x) - self.exponential(-x))).to(args[0].dtype)
