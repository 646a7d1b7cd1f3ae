"""Episodes of `khost serve` for NeMo Gym: text goes to a model server of Gym, and its ids come back.

`rollout` plays one episode and returns what Gym's agents return from `/run`; app.py beside this file is the agent server.
The model server must be one that gives token ids (`return_token_id_information: true`), and must return an answer's text
as it was drawn: no tool parser and no reasoning parser, since khost reads the calls out of the text itself.
"""

import khost_episodes as khost


def _text(item):
    return "".join(part.get("text", "") for part in item.get("content") or [])


def answered_of(response):
    """The one assistant message of a Responses answer, with its ids."""
    items = [item for item in response.get("output") or [] if item.get("type") == "message"]
    if len(items) != 1 or items[0].get("generation_token_ids") is None:
        kinds = [item.get("type") for item in response.get("output") or []]
        raise khost.NotDrawn(
            f"the model server's answer has items {kinds}; one message with generation_token_ids is needed: set "
            "return_token_id_information, and no parser of tools or reasoning"
        )
    item = items[0]
    cut = (response.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    return item, khost.Answered(
        text=_text(item),
        prompt_tokens=list(item["prompt_token_ids"]),
        tokens=list(item["generation_token_ids"]),
        logprobs=[min(float(value), 0.0) for value in item["generation_log_probs"]],
        finish="length" if cut else "stop",
    )


class Conversation:
    """What one try of an episode said, as items of a Responses answer. `ask(params)` posts to the model server."""

    def __init__(self, params, ask):
        self.params, self.ask, self.input, self.output, self.response = dict(params), ask, [], [], {}

    async def respond(self, messages, max_tokens):
        """khost's messages as one more request; the new ones are observations between two answers."""
        if len(messages) <= 2:
            # A new try begins anew.
            self.input, self.output = [], []
        known = len(self.input) + len(self.output)
        new = [{"role": m["role"], "content": m["content"], "type": "message"} for m in messages[known:]]
        if self.output:
            self.output += new
        else:
            self.input = new
        self.response = await self.ask(
            {**self.params, "input": self.input + self.output, "max_output_tokens": max_tokens}
        )
        item, answered = answered_of(self.response)
        self.output.append(item)
        return answered


async def rollout(episodes, task, params, ask):
    """One rollout: `responses_create_params`, `response` with all items, `reward`, and for a void `mask_sample`, by which
    Gym keeps a sample out of scores and whoever trains out of its losses; `khost_void` counts it. `episodes`: of
    khost_episodes.Episodes, without a tokenizer."""
    talk = Conversation(params, ask)
    played = await episodes.play(task, talk.respond)
    void = played.reward is None
    response = {**_EMPTY, **talk.response, "output": talk.output}
    result = {
        "responses_create_params": {**talk.params, "input": talk.input},
        "response": response,
        "reward": 0.0 if void else float(played.reward),
        "mask_sample": void,
        "khost_void": float(void),
        "khost_tries": float(played.tries),
        "khost_trajectory": played.trajectory,
        "khost_ending": played.ending,
    }
    if void:
        result["failure_kind"], result["failure_reason"] = "khost:void", played.void
    return result


# Of a rollout in which no answer came.
_EMPTY = {
    "id": "khost",
    "created_at": 0,
    "model": "",
    "object": "response",
    "parallel_tool_calls": False,
    "tool_choice": "none",
    "tools": [],
}
