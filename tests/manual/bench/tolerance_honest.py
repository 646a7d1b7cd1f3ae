"""Honest ways of computing what a task computes, that differ from PyTorch's in order, form and rounding: what a tolerance
must accept. Each is a dispatch mode with implementations of its own for the operators where ways differ.

`Sequential` is a kernel with one thread a row: one float32 accumulator, exp by exp2, products along K one after the other,
two-pass variance. `Blocked` is a kernel with warps: 32 lanes and a tree, split-K products, online softmax, variance as
E[x^2] - E[x]^2 about a pivot. A low-precision tensor is computed on in float32 and rounded where an operator ends. The
third way, for all tasks, is double with one rounding at the end (`in_double`)."""

import math

import torch

from khost.values.oracle import run, run_in_double
from khost.values.sums import Sums, sequential_sum

LANES = 32
LOG2E = torch.tensor(1.4426950408889634, dtype=torch.float32)


def fast_exp(x):
    """exp by exp2 of a rounded product, as fast exponentials of GPUs do: an error of |x| roundings."""
    return torch.exp2(x * LOG2E)


def blocked_sum(x, dim):
    """32 lanes that stride through `dim`, then a tree over them."""
    moved = x.float().movedim(dim, -1)
    rest = -moved.shape[-1] % LANES
    moved = torch.nn.functional.pad(moved, (0, rest)) if rest else moved
    lanes = moved.reshape(*moved.shape[:-1], -1, LANES)
    lanes = sequential_sum(lanes, -2)
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def sequential_mm(a, b):
    """a @ b with one accumulator an element, k after k, product and sum rounded each."""
    total = torch.zeros(*a.shape[:-1], b.shape[-1])
    for k in range(a.shape[-1]):
        total += a[..., k:k + 1] * b[..., k:k + 1, :]
    return total


def split_mm(a, b):
    """a @ b with K in four parts that are added at the end."""
    size = -(-a.shape[-1] // 4)
    parts = [torch.matmul(a[..., at:at + size].contiguous(), b[..., at:at + size, :].contiguous())
             for at in range(0, a.shape[-1], size)]
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = total + part
    return total


class Ways(Sums):
    """Operators by other implementations; `summed` and `product` are the kernel's own."""

    exponential = staticmethod(fast_exp)

    def op_exp(self, func, args, kwargs):
        return self.exponential(args[0].float()).to(args[0].dtype)

    def op_sigmoid(self, func, args, kwargs):
        return (1 / (1 + self.exponential(-args[0].float()))).to(args[0].dtype)

    def op_silu(self, func, args, kwargs):
        x = args[0].float()
        return (x / (1 + self.exponential(-x))).to(args[0].dtype)

    def op_tanh(self, func, args, kwargs):
        x = args[0].float()
        e = torch.expm1(-2 * x.abs())
        return (torch.sign(x) * (-e / (2 + e))).to(args[0].dtype)

    def op_softplus(self, func, args, kwargs):
        if len(args) > 1 or kwargs:
            return NotImplemented
        x = args[0].float()
        return (x.clamp(min=0) + torch.log1p(self.exponential(-x.abs()))).to(args[0].dtype)

    def op_gelu(self, func, args, kwargs):
        x = args[0].float()
        if kwargs.get("approximate", "none") != "none":
            inner = 0.7978845608028654 * x * (1 + 0.044715 * x * x)
            return (x * (1 / (1 + self.exponential(-2 * inner)))).to(args[0].dtype)
        return (0.5 * x * torch.erfc(-x * 0.7071067811865476)).to(args[0].dtype)

    def op_div(self, func, args, kwargs):
        if kwargs or not isinstance(args[1], torch.Tensor) or args[1].dtype != args[0].dtype or args[1].dim() == 0:
            return NotImplemented
        return (args[0].float() * (1 / args[1].float())).to(args[0].dtype)

    def op_pow(self, func, args, kwargs):
        if not isinstance(args[1], (int, float)) or args[1] != int(args[1]) or not 1 <= args[1] <= 16:
            return NotImplemented
        result, x = args[0].float(), args[0].float()
        for _ in range(int(args[1]) - 1):
            result = result * x
        return result.to(args[0].dtype)

    def op_mm(self, func, args, kwargs):
        return self.product(args[0].float(), args[1].float()).to(args[0].dtype)

    op_bmm = op_mm

    def op_addmm(self, func, args, kwargs):
        if kwargs:
            return NotImplemented
        return (self.product(args[1].float(), args[2].float()) + args[0].float()).to(args[0].dtype)

    def op_convolution(self, func, args, kwargs):
        x, weight, bias, stride, padding, dilation, transposed, _, groups = args
        if transposed or groups != 1 or x.dim() != 4:
            return NotImplemented
        columns = torch.nn.functional.unfold(x.float(), weight.shape[2:], dilation, padding, stride)
        y = self.product(weight.float().reshape(1, weight.shape[0], -1).expand(x.shape[0], -1, -1), columns)
        y = y if bias is None else y + bias.float().reshape(1, -1, 1)
        height = (x.shape[2] + 2 * padding[0] - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1
        return y.reshape(x.shape[0], weight.shape[0], height, -1).to(x.dtype)

    def op_scaled_dot_product_flash_attention_for_cpu(self, func, args, kwargs):
        q, k, v = (t.float() for t in args[:3])
        scale = kwargs.get("scale") or 1 / math.sqrt(q.shape[-1])
        scores = self.product(q * scale, k.transpose(-1, -2).contiguous())
        mask = kwargs.get("attn_mask")
        if len(args) > 4 and args[4]:
            causal = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(causal, float("-inf"))
        scores = scores if mask is None else scores + mask
        return self.attend(scores, v).to(args[0].dtype), torch.zeros(q.shape[:-1])

class Sequential(Ways):
    summed = staticmethod(sequential_sum)
    product = staticmethod(sequential_mm)

    def attend(self, scores, v):
        """Online softmax: keys in blocks of 64, the sums rescaled whenever the maximum grows."""
        top = torch.full((*scores.shape[:-1], 1), float("-inf"))
        total, answer = torch.zeros_like(top), torch.zeros(*scores.shape[:-1], v.shape[-1])
        for at in range(0, scores.shape[-1], 64):
            block = scores[..., at:at + 64]
            higher = torch.maximum(top, block.amax(-1, keepdim=True))
            fade, e = fast_exp(top - higher), fast_exp(block - higher)
            total = total * fade + sequential_sum(e, -1).unsqueeze(-1)
            answer = answer * fade + torch.matmul(e, v[..., at:at + 64, :])
            top = higher
        return answer / total


class Blocked(Ways):
    summed = staticmethod(blocked_sum)
    product = staticmethod(split_mm)
    exponential = staticmethod(torch.exp)

    def moments(self, x, dims):
        """E[x^2] - E[x]^2 about each row's first element, so that a large mean does no harm."""
        count = math.prod(x.shape[d] for d in dims)
        pivot = x.float()
        for d in dims:
            pivot = pivot.narrow(d, 0, 1)
        shifted = x.float() - pivot
        mean = self.sum_over(shifted, dims, True) / count
        square = self.sum_over(shifted * shifted, dims, True) / count
        return mean + pivot, (square - mean * mean).clamp(min=0), count

    def op_softmax(self, func, args, kwargs):
        """Online: per-lane maxima and sums that are merged at the end."""
        x, dim = args[0].float(), args[1]
        halves = x.tensor_split(2, dim)
        tops = [h.amax(dim, keepdim=True) for h in halves]
        top = torch.maximum(*tops)
        total = sum(self.summed(torch.exp(h - t), dim).unsqueeze(dim) * torch.exp(t - top)
                    for h, t in zip(halves, tops))
        return (torch.exp(x - top) * (1 / total)).to(args[0].dtype)

    def attend(self, scores, v):
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        return split_mm(weights, v) / blocked_sum(weights, -1).unsqueeze(-1)


def in_double(model, values, expected):
    """Double, rounded once."""
    return [got.to(x.dtype) for got, x in zip(run_in_double(model, values), expected)]


def ways(model, values, expected):
    """Pairs (name, outputs) of the honest ways that differ from the reference's own on this task."""
    yield "double, rounded once", in_double(model, values, expected)
    for mode in (Sequential(), Blocked()):
        outputs = run(model, values, mode)
        if mode.used:
            yield f"{type(mode).__name__.lower()} ({', '.join(sorted(mode.used))})", outputs
        elif isinstance(mode, Sequential):
            yield "in another order of elements", in_pieces(model, values, expected)


def in_pieces(model, values, expected):
    """For element-wise tasks: the elements one by one in scalar code, where PyTorch's vector code rounds differently; a
    non-contiguous copy takes that path."""
    def strided(tensor):
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
            return tensor
        return torch.stack([tensor, tensor], -1)[..., 0]

    return run(model, [strided(v) for v in values])
