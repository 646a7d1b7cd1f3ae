import torch

# A refusal in the recorder's own form, with a reason that this stage of a verdict does not know. The same word may be
# forged as an answer on the channel (crash/forges_a_wordless_error). Others that do: writes_inputs, ran_while_frozen,
# no_own_work, synchronises, device_busy.
Refused = torch.sys.modules["khost.candidate.candidate_policy"].Refused


class ModelNew(torch.nn.Module):
    def forward(self, x):
        raise Refused("violation/affinity", "what a candidate that knows that it is wrong would rather have")
