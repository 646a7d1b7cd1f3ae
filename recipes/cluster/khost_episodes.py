"""Token-step episodes of `khost serve` for training engines: the engine draws tokens, khost does the rest.

Only the standard library of Python 3.11 is needed, and one event loop serves any number of episodes:

    episodes = Episodes("http://127.0.0.1:8420", tokenizer="policy", token_file="token")
    played = await episodes.play("t1", draw)

`draw(tokens, max_tokens, stop_token_ids)` returns a Drawn. No text is ever encoded here: `Played.tokens` are the prompt
that khost sent, what `draw` returned, and what khost sent between, and at the end they are compared with khost's own.
"""

import asyncio
import collections.abc
import dataclasses
import hashlib
import json
import logging
import random
import ssl
import time
import urllib.parse

logger = logging.getLogger(__name__)

TRIES = 3  # times that an episode is played until one counts, as khost's own player does
BUSY = (429, 503)  # come again later
MOST_WAIT_S = 60.0  # before the next try of a request
# What is said to a step of an episode that is not there any more, for example since the service was started anew.
LOST = ("no_episode", "ended", "conflict", "late", "early", "broken_prefix")


class Refused(Exception):
    """The service will not take a request, and would not take it later: its status, code and reason."""

    def __init__(self, status, code, message):
        super().__init__(f"khost answered {status} {code}: {message}")
        self.status, self.code = status, code


class Unreachable(Exception):
    """The service gave no answer for as long as the caller was willing to wait."""


class NotDrawn(Exception):
    """What `draw` raises where its engine gave no answer: the episode ends as void."""


@dataclasses.dataclass
class Drawn:
    """One answer as an engine drew it, with the token that ended it."""

    tokens: list[int]
    logprobs: list[float]
    finish: str  # "stop" or "length"
    version: int | str | None = None  # of the weights

    @classmethod
    def of(cls, tokens, logprobs, stop_token_ids, version=None):
        """With the finish that the last token says."""
        finish = "stop" if tokens and tokens[-1] in stop_token_ids else "length"
        return cls(list(tokens), [min(float(value), 0.0) for value in logprobs], finish, version)


@dataclasses.dataclass
class Played:
    """An episode. `mask` is 1 exactly where the engine drew; `logprobs` is 0 elsewhere. A void one has no reward."""

    prompt_length: int = 0
    tokens: list[int] = dataclasses.field(default_factory=list)
    mask: list[int] = dataclasses.field(default_factory=list)
    logprobs: list[float] = dataclasses.field(default_factory=list)
    versions: list[int | str | None] = dataclasses.field(default_factory=list)  # of each answer
    reward: float | None = None
    void: str | None = None  # why there is no reward
    ending: str | None = None
    turns: int = 0
    verdict: dict = dataclasses.field(default_factory=dict)
    parts: dict = dataclasses.field(default_factory=dict)
    trajectory: int | None = None  # its number in the run that khost keeps
    tries: int = 1

    @property
    def prompt(self):
        """The ids in front of the first answer."""
        return self.tokens[: self.prompt_length]

    @property
    def response(self):
        """The ids behind the prompt: the last one was drawn."""
        return self.tokens[self.prompt_length :]

    def pieces(self):
        """The conversation in pieces of one kind, in order: (first, last + 1, whether the engine drew it)."""
        begin = 0
        for at in range(1, len(self.mask) + 1):
            if at == len(self.mask) or self.mask[at] != self.mask[begin]:
                yield begin, at, self.mask[begin] == 1
                begin = at

    def append(self, tokens, bit, logprobs=None):
        """Adds drawn (1) or read (0) tokens."""
        self.tokens += tokens
        self.mask += [bit] * len(tokens)
        self.logprobs += logprobs if logprobs is not None else [0.0] * len(tokens)


def read_token(path):
    """The text of a file that holds a client's token; None without a path."""
    if not path:
        return None
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def _parse(data):
    head, separator, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not separator or len(words) < 2 or not words[1].isdigit():
        raise OSError("the connection was cut before the whole answer came")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if len(body) < int(headers.get("content-length", "0")):
        raise OSError("the connection was cut before the whole answer came")
    return int(words[1]), headers, body


class Server:
    """An HTTP server that is asked with JSON: one connection for each request. `timeout_s`: of a request."""

    def __init__(self, url, headers=None, timeout_s=3600.0):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url}: an address http://HOST:PORT expected")
        self.host, self.port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.authority, self.prefix = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self.headers, self.timeout_s = dict(headers or {}), timeout_s

    async def _exchange(self, method, path, body, headers):
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls)
        try:
            lines = [
                f"{method} {self.prefix}{path} HTTP/1.0",  # an answer in one piece, and the connection closed behind it
                f"Host: {self.authority}",
                f"Content-Length: {len(body)}",
                "Content-Type: application/json",
                *(f"{name}: {value}" for name, value in {**self.headers, **headers}.items()),
            ]
            writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            await writer.drain()
            return _parse(await reader.read())
        finally:
            writer.close()

    async def once(self, method, path, content=None, headers=None):
        """One try: status, headers (names in lower case) and the answer's object. Raises OSError for a connection that
        fails or takes too long, and ValueError for an answer that is no JSON."""
        body = json.dumps(content).encode() if content is not None else b""
        exchange = self._exchange(method, path, body, headers or {})
        status, got, text = await asyncio.wait_for(exchange, self.timeout_s)
        return status, got, json.loads(text)


class Service:
    """A running `khost serve`. `patience_s`: how long a request is tried again where the service is busy, restarts or
    cannot be reached. `timeout_s`: of one try; a step waits for tools and the judge."""

    def __init__(self, url, token=None, patience_s=1800.0, timeout_s=3600.0):
        self.server = Server(url, {"Authorization": f"Bearer {token}"} if token else None, timeout_s)
        self.patience_s = patience_s

    async def ask(self, method, path, content=None):
        """The object that the service answers. Raises Refused and Unreachable."""
        deadline, wait_s, why = time.monotonic() + self.patience_s, 0.5, ""
        while True:
            try:
                status, headers, answer = await self.server.once(method, path, content)
                if status == 200:
                    return answer
                error = answer.get("error") or {"code": "void", "message": answer.get("reason")}
                if status not in BUSY:
                    raise Refused(status, error["code"], error["message"])
                why = f"{status} {error['code']}: {error['message']}"
                wait_s = float(headers.get("retry-after", wait_s))
            except (OSError, ValueError) as failure:
                why = f"{type(failure).__name__}: {failure}"
                wait_s = min(2 * wait_s, MOST_WAIT_S)
            wait_s = min(wait_s, MOST_WAIT_S) * random.uniform(1.0, 1.25)
            if time.monotonic() + wait_s > deadline:
                raise Unreachable(f"{method} {path} had no answer for {self.patience_s:g} s; the last was {why}")
            logger.info("khost: %s %s again in %.1f s: %s", method, path, wait_s, why)
            await asyncio.sleep(wait_s)

    async def verdict(self, request):
        """POST /v1/verdict; the whole answer, with `reward` and `reason`."""
        return await self.ask("POST", "/v1/verdict", request)


async def _draw_step(draw, played, last, number):
    try:
        drawn = await draw(list(played.tokens), last["max_tokens"], list(last["stop_token_ids"]))
    except NotDrawn as failure:
        logger.warning("khost: no answer was drawn: %s", failure)
        return {"step": number, "finish": "failed", "message": str(failure)[:200]}
    played.append(drawn.tokens, 1, drawn.logprobs)
    played.versions.append(drawn.version)
    step = {"step": number, "tokens": drawn.tokens, "logprobs": drawn.logprobs, "finish": drawn.finish}
    if drawn.version is not None:
        step["version"] = drawn.version
    return step


async def _take(service, path, step, played):
    """The answer to a step; None where the episode is lost, which makes it void."""
    try:
        return await service.ask("POST", path + "/step", step)
    except Refused as refused:
        if refused.code not in LOST:
            raise
        played.void, played.ending = str(refused), "env_error"
        return None


def _finish(played, answer):
    played.reward, played.void, played.ending = answer.get("reward"), answer.get("void"), answer.get("ending")
    played.turns, played.verdict = answer.get("turns", 0), answer.get("verdict") or {}
    played.parts, played.trajectory = answer.get("parts") or {}, answer.get("trajectory")
    if played.reward is None and not played.void:
        played.void = "the service gave no reward"
    ids = ",".join(str(token) for token in played.tokens).encode()
    if played.reward is not None and hashlib.sha256(ids).hexdigest() != answer["tokens_hash"]:
        raise RuntimeError("the tokens of an episode are not those that khost has; one of both changed them on the way")
    return played


async def play(service, request, draw, most_prompt=None):
    """Plays one episode. `request` is the body of POST /v1/episodes. A prompt of more than `most_prompt` tokens is a
    void, since an engine that cuts it would train on another one."""
    begun = await service.ask("POST", "/v1/episodes", request)
    played, path, number, last = Played(), f"/v1/episodes/{begun['id']}", 0, begun
    played.append(begun["tokens"], 0)
    played.prompt_length = len(begun["tokens"])
    try:
        if most_prompt is not None and played.prompt_length > most_prompt:
            played.void = f"the prompt has {played.prompt_length} tokens, and the engine takes {most_prompt}"
            return played
        while not last["done"]:
            number += 1
            answer = await _take(service, path, await _draw_step(draw, played, last, number), played)
            if answer is None:
                return played
            last = answer
            played.append(last["append"], 0)
        return _finish(played, last)
    finally:
        if not last["done"]:
            await _give_up(service, path)


@dataclasses.dataclass
class Answered:
    """One answer of a server of messages, with the ids that the server had."""

    text: str
    prompt_tokens: list[int]
    tokens: list[int]
    logprobs: list[float]
    finish: str  # "stop" or "length"
    version: int | str | None = None


async def _text_step(respond, played, messages, last, number):
    try:
        answered = await respond(list(messages), last["max_tokens"])
    except NotDrawn as failure:
        logger.warning("khost: no answer was drawn: %s", failure)
        return {"step": number, "finish": "failed", "message": str(failure)[:200]}
    if number == 1:
        played.prompt_length = len(answered.prompt_tokens)
    played.append(answered.prompt_tokens[len(played.tokens) :], 0)
    played.append(answered.tokens, 1, answered.logprobs)
    played.versions.append(answered.version)
    messages.append({"role": "assistant", "content": answered.text})
    step = {**dataclasses.asdict(answered), "step": number}
    if answered.version is None:
        del step["version"]
    return step


async def play_text(service, request, respond, most_prompt=None):
    """Plays one episode with a server of messages: `respond(messages, max_tokens)` returns an Answered. The server's
    ids are the record; khost refuses a prompt that does not continue the ids before it, and the episode is void."""
    begun = await service.ask("POST", "/v1/episodes", request)
    played, messages, path, number, last = Played(), [], f"/v1/episodes/{begun['id']}", 0, begun
    try:
        while not last["done"]:
            messages += last["messages"]
            number += 1
            step = await _text_step(respond, played, messages, last, number)
            if most_prompt is not None and played.prompt_length > most_prompt:
                played.void = f"the prompt has {played.prompt_length} tokens, and the engine takes {most_prompt}"
                return played
            answer = await _take(service, path, step, played)
            if answer is None:
                return played
            last = answer
        return _finish(played, last)
    finally:
        if not last["done"]:
            await _give_up(service, path)


async def _give_up(service, path):
    """Ends an episode early; where that cannot be said the service ends it when its time is over."""
    try:
        await asyncio.shield(asyncio.wait_for(service.server.once("DELETE", path), 10.0))
    except (OSError, ValueError) as failure:
        logger.info("khost: %s was not given up: %s", path, failure)


def _plain(value):
    """A configuration's values as JSON has them."""
    if isinstance(value, collections.abc.Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


class Episodes:
    """What an adapter is configured with: the service and how its episodes are played.

    `url`, `token_file`: of the service. `tokenizer`: as `khost serve --tokenizer NAME=FOLDER` knows it; None for an
    engine that takes messages. `episode`: further fields of POST /v1/episodes, such as format, scheme and limits.
    `patience_s`: of a request. `tries`: times that a task is played until an episode has a reward."""

    def __init__(self, url, tokenizer=None, token_file=None, episode=None, patience_s=1800.0, tries=TRIES):
        self.service = Service(url, read_token(token_file), patience_s=patience_s)
        self.episode, self.tries = _plain(episode or {}), tries
        if tokenizer:
            self.episode["tokenizer"] = tokenizer

    async def play(self, task, draw, limits=None, most_prompt=None):
        """Plays until an episode has a reward, at most `tries` times; the last one otherwise, without a reward. `limits`
        hold where the configuration has none. `draw`: as of `play`, and without a tokenizer as of `play_text`."""
        request = {**self.episode, "task": task, "limits": {**(limits or {}), **(self.episode.get("limits") or {})}}
        player = play if "tokenizer" in request else play_text
        for attempt in range(1, self.tries + 1):
            played = await player(self.service, request, draw, most_prompt)
            played.tries = attempt
            if played.reward is not None or attempt == self.tries or played.ending is None:
                break
            logger.warning("khost: an episode of task %s is void and is played again: %s", task, played.void)
        return played
