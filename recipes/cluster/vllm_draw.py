"""Draws tokens from a vLLM server, ids in and ids out: `POST /inference/v1/generate`, and on servers without that route
`POST /v1/completions` with `return_token_ids`. Both give the token that ended an answer and log-probabilities of the
drawn tokens alone."""

import khost_episodes as khost

GONE = (404, 405)  # of a server without the route


def _of_generate(answer):
    choice = answer["choices"][0]
    return choice["token_ids"], [entry["logprob"] for entry in choice["logprobs"]["content"]]


def _of_completions(answer):
    choice = answer["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"]


class VllmDraw:
    """`draw` for one conversation. `sampling`: temperature, top_p and what else the server takes. `headers`: such as the
    one by which a router keeps a conversation on one server. `version()` is asked once an answer has come."""

    def __init__(self, url, model, sampling, headers=None, version=None, timeout_s=3600.0):
        self.server = khost.Server(url.rstrip("/").removesuffix("/v1"), headers, timeout_s)
        self.model, self.sampling, self.version, self.has_generate = model, dict(sampling), version, True

    async def _ask(self, path, content):
        try:
            status, _, answer = await self.server.once("POST", path, content)
        except (OSError, ValueError) as failure:
            raise khost.NotDrawn(f"the server gave no answer: {type(failure).__name__}: {failure}") from failure
        if status not in (200, *GONE):
            raise khost.NotDrawn(f"the server answered {status}: {str(answer)[:150]}")
        return status, answer

    async def __call__(self, tokens, max_tokens, stop_token_ids):
        limits = {"max_tokens": max_tokens, "stop_token_ids": stop_token_ids, "skip_special_tokens": False}
        status = GONE[0]
        if self.has_generate:
            sampling = {**self.sampling, **limits, "logprobs": 1}
            content = {"model": self.model, "token_ids": tokens, "sampling_params": sampling}
            status, answer = await self._ask("/inference/v1/generate", content)
            read, self.has_generate = _of_generate, status == 200
        if status in GONE:
            content = {**self.sampling, **limits, "model": self.model, "prompt": tokens, "logprobs": 1,
                       "return_token_ids": True}
            status, answer = await self._ask("/v1/completions", content)
            read = _of_completions
        try:
            drawn, logprobs = read(answer)
        except (KeyError, TypeError, IndexError) as failure:
            raise khost.NotDrawn(f"the server's answer has no {failure}: {str(answer)[:150]}") from failure
        version = self.version() if self.version else None
        return khost.Drawn.of(drawn, logprobs, stop_token_ids, version)
