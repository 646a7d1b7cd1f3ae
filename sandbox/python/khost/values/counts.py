"""Small outputs that count: how many elements of the inputs lie in a bin or beyond a threshold, or what part of them. An
element of the inputs that one rounding takes across the threshold changes such a number by one step, in any output and
in none for certain, so that no share of the output's elements describes it: each of them may be off by a few steps."""

import math

import torch

MOST = 256      # elements of an output; of larger ones a share may be beyond
ZERO = 2.0 ** -40  # what double loses, as a part of the value
OFF = 0.05      # steps by which a difference may miss a whole number of them
MOVES = 4096    # roundings of the run that was moved far (tolerance.FAR)
KERNELS = 16    # roundings by which an honest kernel may be off, to all sides or to one
DEVIATIONS = 2  # of the number of those that lie so near: each set has another
MARGIN = 4      # times as many elements as were seen so near to a threshold
ROUNDINGS = 2.0 ** -20  # of a value: a step that is no larger is one of its own
SMALL = 64      # steps that a value must have for each one that is granted


class Counted:
    """What the runs of one output differ by, in double: from the reference in double, on inputs that were moved by one
    rounding (`near`) and by many (`far`)."""

    def __init__(self, elements):
        self.small = 0 < elements < MOST
        self.near, self.far, self.sizes = [], [], []

    def add(self, exact, moved):
        if self.small and exact is not None:
            exact = exact.double().reshape(-1).cpu()
            self.sizes.append(exact.abs())
            self.near += [differences(other, exact) for other in moved]

    def add_far(self, exact, far):
        if self.small:
            self.far.append(differences(far, exact.double().reshape(-1).cpu()))

    def share(self):
        """Which part of the elements one of the thresholds' neighbours takes across it, at most, in an honest kernel."""
        far, seen = torch.cat(self.far), torch.cat(self.near + self.far)
        crossed = (far / seen[seen > 0].min()).square() * (MARGIN * KERNELS / MOVES)
        return float((1 - torch.exp(-crossed)).mean())

    def granted(self):
        """How far off single elements may be: 0 for what does not count in steps, or in few of them."""
        if not self.near or not self.far:
            return 0.0
        near, far, size = torch.cat(self.near), torch.cat(self.far), float(torch.cat(self.sizes).mean())
        seen = torch.cat([near, far])
        steps = seen[seen > 0]
        if not steps.numel() or not bool(torch.isfinite(seen).all()) or 2 * int((near > 0).sum()) > near.numel():
            return 0.0
        step = float(steps.min())
        if step <= ROUNDINGS * size:
            return 0.0
        counts = steps / step
        if bool(((counts - counts.round()).abs() > OFF).any()):
            return 0.0
        # Of so many that were taken across, half of them up and half down, the square root is left.
        crossed = float(far.max() / step) ** 2 * KERNELS / MOVES
        granted = step * (1 + int(crossed + DEVIATIONS * math.sqrt(crossed)))
        return granted if SMALL * granted <= size else 0.0


def differences(other, exact):
    distance = (other.double().reshape(-1).cpu() - exact).abs()
    return torch.where(distance <= ZERO * exact.abs(), 0.0, distance)
