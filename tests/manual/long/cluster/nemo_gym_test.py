"""The agent server for NeMo Gym against Gym's own classes, from the sources that pip gives, and a fake model server.

Gym itself needs a newer Python, so it is unpacked and not installed; the exchanges with its model server are what its
sources say. Run by tests/manual/long/cluster.sh. Ends with 1 where something does not hold."""

import json
import logging
import sys

import answers
import running

sys.path.insert(0, str(running.CLUSTER / "nemo_gym"))

import app as khost_app
from fastapi.testclient import TestClient
from nemo_gym.config_types import ModelServerRef
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.server_utils import ServerClient
from tokenizers import Tokenizer


class Answer:
    """What Gym's client returns for a request."""

    ok = True

    def __init__(self, content):
        self.content = content

    async def read(self):
        """The body."""
        return json.dumps(self.content).encode()


class ModelServer(ServerClient):
    """A model server of Gym with token ids: ids of earlier answers stand as they were drawn, the rest is encoded."""

    def prepare(self, tokenizer):
        """Takes the tokenizer."""
        self.__dict__["state"] = {"tokenizer": tokenizer, "queue": [], "forget": False, "asked": []}
        return self

    def encode(self, text):
        """Ids with special tokens read."""
        return self.__dict__["state"]["tokenizer"].encode(text, add_special_tokens=False).ids

    def prompt_of(self, items):
        """The ids in front of the next answer."""
        ids, first = [], 0
        for at, item in enumerate(items):
            if item.get("generation_token_ids") and not self.__dict__["state"]["forget"]:
                ids, first = item["prompt_token_ids"] + item["generation_token_ids"] + self.encode("\n"), at + 1
        for item in items[first:]:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            ids += self.encode(f"<|im_start|>{item['role']}\n{text} <|im_end|>\n")
        return ids + self.encode("<|im_start|>assistant\n")

    async def post(self, server_name, url_path, json=None, **_):
        """One request to the model server."""
        state = self.__dict__["state"]
        assert server_name == "policy_model" and url_path == "/v1/responses" and json["max_output_tokens"] > 0
        assert "tools" not in json, "khost reads calls out of text"
        state["asked"].append(json)
        prompt, text = self.prompt_of(json["input"]), state["queue"].pop(0)
        drawn = self.encode(text) + self.encode("<|im_end|>")
        item = {"id": "m", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
                "prompt_token_ids": prompt, "generation_token_ids": drawn,
                "generation_log_probs": [-(index + 1) / 1024 for index in range(len(drawn))]}
        content = {"id": "r", "created_at": 1, "model": "policy", "object": "response", "output": [item],
                   "parallel_tool_calls": False, "tool_choice": "none", "tools": []}
        NeMoGymResponse.model_validate(content)
        return Answer(content)


def agent_of(service, tokenizer, tries=2):
    """The agent server as Gym starts it, and its model server."""
    config = khost_app.KhostAgentConfig(
        host="127.0.0.1", port=1, entrypoint="app.py", name="khost_agent", url=service.url, patience_s=900, tries=tries,
        model_server=ModelServerRef(type="responses_api_models", name="policy_model"),
        episode={"format": "files", "measure": False, "limits": {"turns": 3, "answer_tokens": 1024}})
    client = ModelServer.model_construct(head_server_config=None, global_config_dict={}).prepare(tokenizer)
    agent = khost_app.KhostAgent.model_construct(config=config, server_client=client)
    agent.__pydantic_private__ = {"_session_records": {}}
    return TestClient(agent.setup_webserver()), client


def sample_of(output):
    """Tokens and mask of a rollout as NeMo RL puts them together: each prompt must continue what was seen."""
    tokens, mask = [], []
    for item in output:
        if not item.get("generation_token_ids"):
            continue
        prompt = item["prompt_token_ids"]
        assert prompt[: len(tokens)] == tokens, "a turn's prompt does not continue the last"
        mask += [0] * (len(prompt) - len(tokens)) + [1] * len(item["generation_token_ids"])
        tokens = prompt + item["generation_token_ids"]
    return tokens, mask


def rollout(client, task):
    """POST /run with a row."""
    got = client.post("/run", json={"responses_create_params": {"input": [], "temperature": 1.0}, "khost_task": task})
    assert got.status_code == 200, got.text
    return got.json()


def main():
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with running.service() as service:
        tokenizer = Tokenizer.from_file(str(service.folder / "tokenizer.json"))
        client, server = agent_of(service, tokenizer)
        state = server.__dict__["state"]
        for task, reward in (("diagonal", -1), ("chain", 1)):
            code = answers.KERNELS[-1 if reward < 0 else 2][1]
            state["queue"] = ["I do not know.", answers.block(code), "done"]
            result = rollout(client, task)
            assert result["reward"] == reward and result["mask_sample"] is False, result["reward"]
            tokens, mask = sample_of(result["response"]["output"])
            kept = service.trajectory(result["khost_trajectory"])
            assert tokens == running.numbers(kept["tokens"], "i") and mask == running.numbers(kept["mask"], "b")
            roles = [item["role"] for item in result["response"]["output"]]
            assert roles == ["assistant", "user", "assistant", "user", "assistant"], roles
        print("nemo_gym: rewards -1 and 1, each prompt continues the last, ids equal to khost's record", flush=True)
        # A server that encodes an earlier answer again: the prefix breaks, and the sample is masked.
        state["queue"], state["forget"] = ["I do not know."] * 4, True
        result = rollout(client, "diagonal")
        assert result["reward"] == 0.0 and result["mask_sample"] is True and result["khost_void"] == 1.0
        assert "does not continue" in result["failure_reason"] and result["failure_kind"] == "khost:void"
        state["forget"] = False
        assert result["khost_tries"] == 2.0
        print("nemo_gym: a void is mask_sample, with its reason", flush=True)
    print("nemo_gym: all holds")


if __name__ == "__main__":
    main()
