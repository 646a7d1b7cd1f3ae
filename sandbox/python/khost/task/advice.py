"""What helps where a task's own code raises: errors of PyTorch's and Python's that come up when a file that was written
for a script of its own is judged, each with what its author can do."""

import re

ADVICE = (
    (r"No module named|attempted relative import|cannot import name",
     "a task is one file, which may import torch, numpy and Python's own modules"),
    (r"no NVIDIA driver|not compiled with CUDA|No CUDA GPUs|Invalid device string|CUDA driver version",
     "a task asks for no device by itself: leave out .cuda() and device=, the judge moves model and inputs to its own"),
    (r"does not require grad and does not have a grad_fn",
     "forward runs without gradients: take them beneath torch.enable_grad(), of tensors that ask for them there"),
    (r"Model(\.__init__)?\(\) (takes|missing|got)|__init__\(\) missing \d+ required",
     "get_init_inputs gives the arguments of Model: a list of them, a dict of named ones, or both as [[...], {...}]"),
    (r"NestedTensorImpl",
     "in evaluation nn.TransformerEncoder packs padded sequences into nested tensors, which cannot be measured: give it "
     "enable_nested_tensor=False"),
    (r"get_inputs\(\) missing", "get_inputs is called without arguments: give each of them a default"),
    (r"forward\(\) (takes|missing|got)", "get_inputs gives the arguments of forward, in their order"),
)


def advice_for(error):
    """What helps, as the end of a sentence; "" where nothing is known."""
    text = str(error)
    return next((f"; {advice}" for pattern, advice in ADVICE if re.search(pattern, text)), "")
