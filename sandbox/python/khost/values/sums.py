"""The model with every sum in one accumulator (float32, or float64 for a task of that), term after term, and with functions
as textbooks have them: what a plain kernel with one thread a row loses. PyTorch's own sums are pairwise or in double and do
not show it."""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from khost.values.forms import TextbookForms, wide

try:
    import numpy
except ImportError:  # the sums then raise, and the caller does without them
    numpy = None

MOST_TERMS = 1 << 16  # of a sum in one accumulator
ONE_PASS = 16         # variances of which the squared mean is no larger part are E[x^2] - E[x]^2


def sequential_sum(x, dim):
    """One accumulator along `dim`, a second one over pieces of 2^16 terms."""
    moved = wide(x).movedim(dim, -1).contiguous().cpu().numpy()
    sums = [numpy.cumsum(moved[..., at:at + MOST_TERMS], axis=-1)[..., -1]
            for at in range(0, moved.shape[-1], MOST_TERMS)]
    return torch.from_numpy(numpy.cumsum(numpy.stack(sums, -1), axis=-1)[..., -1].copy()).to(x.device)


class Sums(TextbookForms, TorchDispatchMode):
    """Operators that sum, with `summed` for the sum over one axis; `used` names those that ran."""

    exponential = staticmethod(torch.exp)
    summed = staticmethod(sequential_sum)

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing here is compiled, and skipping imports the compiler: 1 s of a child

    def __init__(self):
        super().__init__()
        self.used = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.__name__.split(".")[0]
        way = getattr(self, "op_" + name.strip("_"), None)
        in_place = name.endswith("_") and name.strip("_") in self.named()
        if way is not None and isinstance(args[0], torch.Tensor) and args[0].is_floating_point() and \
                kwargs.get("dtype") is None and (in_place or not func._schema.is_mutable):
            result = way(func, args, kwargs)
            if result is not NotImplemented:
                self.used.add(name)
                return args[0].copy_(result) if in_place else result
        return func(*args, **kwargs)

    def sum_over(self, x, dims, keep=False):
        dims = sorted({d % x.dim() for d in dims})
        kept = [d for d in range(x.dim()) if d not in dims]
        flat = wide(x).permute(*kept, *dims).reshape(*[x.shape[d] for d in kept], -1)
        total = self.summed(flat, -1)
        return total.reshape([1 if d in dims else x.shape[d] for d in range(x.dim())]) if keep else total

    def dims_of(self, args, kwargs):
        dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
        dims = [dims] if isinstance(dims, int) and not isinstance(dims, bool) else dims
        keep = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
        return (list(range(args[0].dim())) if dims is None or len(dims) == 0 else list(dims)), bool(keep)

    def op_sum(self, func, args, kwargs):
        dims, keep = self.dims_of(args, kwargs)
        return self.sum_over(args[0], dims, keep).to(args[0].dtype)

    def op_mean(self, func, args, kwargs):
        dims, keep = self.dims_of(args, kwargs)
        count = math.prod(args[0].shape[d] for d in dims)
        return (self.sum_over(args[0], dims, keep) / count).to(args[0].dtype)

    def moments(self, x, dims):
        """Mean and biased variance, axes kept; in one pass where that loses few digits, as many kernels do it."""
        count = math.prod(x.shape[d] for d in dims)
        mean = self.sum_over(x, dims, True) / count
        two = self.sum_over((wide(x) - mean).square(), dims, True) / count
        one = self.sum_over(wide(x).square(), dims, True) / count - mean * mean
        return mean, torch.where(mean * mean <= ONE_PASS * two, one, two), count

    @staticmethod
    def dims_of_moments(args, kwargs):
        """Of var and its kin, whose second argument may be `unbiased` instead."""
        dims = args[1] if len(args) > 1 and not isinstance(args[1], bool) else kwargs.get("dim")
        return [dims] if isinstance(dims, int) else list(dims) if dims else list(range(args[0].dim()))

    def op_var(self, func, args, kwargs):
        dims = self.dims_of_moments(args, kwargs)
        correction = kwargs.get("correction", 1)
        _, variance, count = self.moments(args[0], [d % args[0].dim() for d in dims])
        result = variance * (count / (count - (1 if correction is None else correction)))
        if not kwargs.get("keepdim", False):
            for d in sorted((d % args[0].dim() for d in dims), reverse=True):
                result = result.squeeze(d)
        return result.to(args[0].dtype)

    def op_std(self, func, args, kwargs):
        return self.op_var(func, args, kwargs).sqrt()

    def op_var_mean(self, func, args, kwargs):
        dims = self.dims_of_moments(args, kwargs)
        mean = self.op_mean(func, (args[0], dims, kwargs.get("keepdim", False)), {})
        return self.op_var(func, args, kwargs), mean

    def op_std_mean(self, func, args, kwargs):
        variance, mean = self.op_var_mean(func, args, kwargs)
        return variance.sqrt(), mean

    def op_softmax(self, func, args, kwargs):
        x, dim = wide(args[0]), args[1]
        e = self.exponential(x - x.amax(dim, keepdim=True))
        return (e / self.summed(e, dim).unsqueeze(dim)).to(args[0].dtype)

    def op_log_softmax(self, func, args, kwargs):
        x, dim = wide(args[0]), args[1]
        shifted = x - x.amax(dim, keepdim=True)
        return (shifted - self.summed(self.exponential(shifted), dim).log().unsqueeze(dim)).to(args[0].dtype)

    def op_logsumexp(self, func, args, kwargs):
        x, dim = wide(args[0]), args[1][0]
        keep = args[2] if len(args) > 2 else False
        top = x.amax(dim, keepdim=True)
        safe = torch.where(torch.isfinite(top), top, 0.0)
        result = self.summed(self.exponential(x - safe), dim).log().unsqueeze(dim) + safe
        return (result if keep else result.squeeze(dim)).to(args[0].dtype)

    def op_native_layer_norm(self, func, args, kwargs):
        x, shape, weight, bias, eps = args
        dims = list(range(x.dim() - len(shape), x.dim()))
        mean, variance, _ = self.moments(x, dims)
        scale = 1 / torch.sqrt(variance + eps)
        y = (wide(x) - mean) * scale
        y = y if weight is None else y * wide(weight)
        y = y if bias is None else y + wide(bias)
        return y.to(x.dtype), mean, scale

    def op_native_group_norm(self, func, args, kwargs):
        x, weight, bias, n, channels, _, groups, eps = args
        rows = x.reshape(n * groups, -1)
        mean, variance, _ = self.moments(rows, [1])
        y = ((wide(rows) - mean) * (1 / torch.sqrt(variance + eps))).reshape(n, channels, -1)
        y = y if weight is None else y * wide(weight).reshape(1, -1, 1)
        y = y if bias is None else y + wide(bias).reshape(1, -1, 1)
        return y.reshape(x.shape).to(x.dtype), mean.reshape(n, groups), variance.reshape(n, groups)

    def op_linalg_vector_norm(self, func, args, kwargs):
        order = args[1] if len(args) > 1 else 2
        dims = args[2] if len(args) > 2 and args[2] is not None else list(range(args[0].dim()))
        if order not in (1, 2):
            return NotImplemented
        x = wide(args[0])
        total = self.sum_over(x * x if order == 2 else x.abs(), [d % x.dim() for d in dims],
                              len(args) > 3 and bool(args[3]))
        return (total.sqrt() if order == 2 else total).to(args[0].dtype)

    def op_native_batch_norm(self, func, args, kwargs):
        x, weight, bias, _, _, training, _, eps = args[:8]
        if not training:
            return NotImplemented
        _, *others = func(*args, **kwargs)  # it changes the running averages too
        dims = [d for d in range(x.dim()) if d != 1]
        mean, variance, _ = self.moments(x, dims)
        scale, channels = 1 / torch.sqrt(variance + eps), [x.shape[1] if d == 1 else 1 for d in range(x.dim())]
        y = (wide(x) - mean) * scale
        y = y if weight is None else y * wide(weight).reshape(channels)
        y = y if bias is None else y + wide(bias).reshape(channels)
        return (y.to(x.dtype), *others)

    op_cudnn_batch_norm = op_native_batch_norm

    def op_cumsum(self, func, args, kwargs):
        x, dim = wide(args[0]), args[1]
        return torch.from_numpy(numpy.cumsum(x.cpu().numpy(), axis=dim)).to(args[0])

    def op_logcumsumexp(self, func, args, kwargs):
        x, dim = wide(args[0]), args[1]
        if x.dim() == 0:
            return NotImplemented
        return torch.from_numpy(numpy.logaddexp.accumulate(x.cpu().numpy(), axis=dim)).to(args[0])

    def op_cumprod(self, func, args, kwargs):
        x, dim = wide(args[0]), args[1]
        return torch.from_numpy(numpy.cumprod(x.cpu().numpy(), axis=dim)).to(args[0])

    def op_mse_loss(self, func, args, kwargs):
        if (args[2] if len(args) > 2 else 1) != 1:
            return NotImplemented
        difference = wide(args[0]) - wide(args[1])
        return (self.summed((difference * difference).reshape(-1), 0) / difference.numel()).to(args[0].dtype)
