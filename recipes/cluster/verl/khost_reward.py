"""A reward function of verl for single answers: `reward.custom_reward_function.path` names this file.

verl cannot mask a sample from here, and a number that stands for "nothing is known" would be trained on. So the function
waits for the service, as long as KHOST_PATIENCE_S says, and raises then; with KHOST_VOID it returns that number instead
and counts it as khost_void. Where voids must be masked, use the agent loop with one turn: khost_agent_loop.py.

Environment: KHOST_URL, KHOST_TOKEN_FILE, KHOST_PATIENCE_S (1800), KHOST_VOID (none), KHOST_SCHEME (the service's).
"""

import os

import khost_episodes as khost


def _service():
    return khost.Service(
        os.environ.get("KHOST_URL", "http://127.0.0.1:8420"),
        khost.read_token(os.environ.get("KHOST_TOKEN_FILE")),
        patience_s=float(os.environ.get("KHOST_PATIENCE_S", "1800")),
    )


async def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """The reward of an answer's text: `ground_truth` is the hash or id of its task. `status` comes beside `score`."""
    request = {"task": ground_truth, "answer": solution_str, "measure": (extra_info or {}).get("measure", True)}
    if os.environ.get("KHOST_SCHEME"):
        request["scheme"] = os.environ["KHOST_SCHEME"]
    try:
        answer = await _service().verdict(request)
        reward, why = answer.get("reward"), answer.get("reason")
    except khost.Unreachable as failure:
        reward, why, answer = None, str(failure), {"verdict": {"status": "void"}}
    if reward is None and "KHOST_VOID" not in os.environ:
        raise RuntimeError(f"khost gave no reward for task {ground_truth}: {why}; KHOST_VOID=0 would count it as 0")
    void = reward is None
    return {
        "score": float(os.environ["KHOST_VOID"]) if void else float(reward),
        "khost_void": float(void),
        "status": answer["verdict"]["status"],
    }
