import torch
import cuda_extension as ext


class ModelNew(torch.sys.modules["model"].Model):
    def forward(self, x):
        y = self.conv(x)
        out = torch.empty_like(y)
        ext.epilogue(y, self.scale, self.shift, out, y.shape[0], y.shape[1], y.shape[2] * y.shape[3])
        return out
